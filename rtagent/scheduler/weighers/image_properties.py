"""ImagePropertiesWeigher: hosts whose instances have images like the requested one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rtagent.model.claim import ATTACH, Claim
from rtagent.model.host_report import InstanceInfo
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request
from rtagent.scheduler.weigher import Weigher


class ImagePropertiesWeigher(Weigher):
    """Prefers hosts with more instances whose images have the properties of the requested one.

    A host weighs, for each requested property, the number of its instances with that value, times
    the ratio in ``image_props_weight_setting``; if that option is empty, times 1.
    """

    multiplier_key = "image_props_weight_multiplier"

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float] | None:
        ratios = self.options.image_props_weight_setting
        wanted = {
            (name, value): ratios.get(name, 0.0) if ratios else 1.0
            for name, value in request.spec.image.properties.items()
        }
        return [_weight(host, wanted) for host in hosts] if any(wanted.values()) else None


def _weight(host: HostState, wanted: Mapping[tuple[str, str], float]) -> float:
    infos = (host.instances[uuid] for uuid in sorted(host.instances_here))
    found = (item for info in infos for item in _properties(info))
    return sum(wanted.get(item, 0.0) for item in found)


def _properties(info: InstanceInfo) -> Iterator[tuple[str, str]]:
    """Yield the image properties of an instance: those of its newest claim."""
    newest = max(_main(info), key=lambda claim: claim.revision, default=None)
    yield from newest.image.properties.items() if newest else ()


def _main(info: InstanceInfo) -> Iterator[Claim]:
    """Yield the claims for the whole guest, rather than for devices that were attached later."""
    return (claim for claim in info.claims if claim.kind != ATTACH)
