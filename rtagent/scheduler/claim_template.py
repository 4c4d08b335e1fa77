"""ClaimTemplate: the claim that a request needs on any host, for any of its instances."""

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from rtagent.allocation import requirements
from rtagent.model.base import Value
from rtagent.model.claim import BUILD, LIVE_MIGRATION, MOVE_TYPES
from rtagent.model.migration import MoveRequest, SourceFacts
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest, Image, Instance, Limits, NumaLimits
from rtagent.model.server import ImageRequest, RequestSpec
from rtagent.model.usage import Usage
from rtagent.pci.requests import EXTRA_SPEC

#: The owner in a template. No instance has this uuid, nor `OTHERS` and `SHARED` of a replica.
NO_OWNER = "00000000-0000-0000-0000-000000000001"
#: A new instance is built (Nova's ``vm_states.BUILDING``), so it counts as a load of the disks.
_BUILDING = "building"

_sorted = msgspec.json.Encoder(order="deterministic")


class ClaimTemplate(Value, frozen=True, kw_only=True):
    """The requirements of a claim on any host.

    :ivar kind: `BUILD`, or the type of the move.
    :ivar build: the request of the claim, with the owner `NO_OWNER`.
    :ivar page_sizes: of a live migration, see `SourceFacts`.
    :ivar plain: the quantities, if these alone decide whether the claim fits; None: cells, devices
        or other units are requested, too.
    :ivar needs_units: units of other resource classes are requested: mediated devices, for example.
    :ivar digest: of everything that decides whether the claim fits.
    """

    kind: str
    build: BuildRequest
    page_sizes: tuple[int | None, ...] = ()
    plain: Usage | None = None
    needs_units: bool = False
    digest: str = ""

    def build_request(self, owner_id: str) -> BuildRequest:
        """Return the request of an instance's claim."""
        return replace(self.build, instance=replace(self.build.instance, uuid=owner_id))

    def move_request(self, build: BuildRequest) -> MoveRequest:
        """Return the request of a move's claim."""
        return MoveRequest(
            build=build,
            migration=self.kind,  # type: ignore[arg-type]  # one of the types of moves
            old_flavor=build.instance.flavor,
            source=SourceFacts(page_sizes=self.page_sizes),
        )


def claim_template(spec: RequestSpec, page_sizes: tuple[int | None, ...] = ()) -> ClaimTemplate:
    """Return the template of a request's claims.

    :param page_sizes: those that the instance has, in KiB by guest cell. A live migration cannot
        change them.
    :raises InvalidFlavor: the flavor and the image describe no valid guest on any host.
    :raises InvalidPciRequest: ``hw:pmem`` or ``extra_resource`` is malformed.
    """
    kind = kind_of(spec)
    build = BuildRequest(
        instance=instance_of(spec, NO_OWNER, vm_state=_BUILDING),
        limits=limits_of(spec),
        extra_resource=spec.extra_resource,
    )
    sizes = page_sizes if kind == LIVE_MIGRATION else ()
    # Each host defines its own aliases of devices.
    required = requirements.from_request(build, Policy(), lambda *_: ())
    needs_devices = spec.pci_requests or spec.flavor.extra_specs.get(EXTRA_SPEC)
    return ClaimTemplate(
        kind=kind,
        build=build,
        page_sizes=sizes,
        plain=required.usage if required.is_plain and not needs_devices else None,
        needs_units=bool(required.assigned_resources),
        digest=_digest(build, kind, sizes),
    )


def instance_of(spec: RequestSpec, uuid: str, **facts: str | None) -> Instance:
    """Return an instance of a request. :param facts: its name and its state."""
    return Instance(
        uuid=uuid,
        flavor=spec.flavor,
        image=Image(properties=spec.image.properties),
        pci_requests=spec.pci_requests,
        project_id=spec.project_id,
        user_id=spec.user_id,
        os_type=spec.os_type,
        is_volume_backed=spec.is_bfv,
        **facts,
    )


def spec_of(instance: Instance, **fields: Any) -> RequestSpec:
    """Return a request for an instance, as far as that tells it. :param fields: others of it."""
    return RequestSpec(
        flavor=instance.flavor,
        image=ImageRequest(properties=instance.image.properties),
        pci_requests=instance.pci_requests,
        project_id=instance.project_id,
        user_id=instance.user_id,
        os_type=instance.os_type,
        is_bfv=instance.is_volume_backed,
        **fields,
    )


def kind_of(spec: RequestSpec) -> str:
    """Return the kind of a request's claims: `BUILD`, or the type of the move."""
    return spec.purpose if spec.purpose in MOVE_TYPES else BUILD


def limits_of(spec: RequestSpec) -> Limits:
    """Return the limits for the claim: the caller's, with the networks of the request.

    Ratios are left out, so that the host's own apply, as it knows them at that time.
    """
    if spec.network_metadata is None:
        return spec.limits
    numa = spec.limits.numa_topology or NumaLimits()
    return replace(spec.limits, numa_topology=replace(numa, network_metadata=spec.network_metadata))


def _digest(build: BuildRequest, kind: str, page_sizes: tuple[int | None, ...]) -> str:
    instance, flavor = build.instance, replace(build.instance.flavor, name="", flavorid="")
    guest = flavor, instance.image.properties, instance.pci_requests, instance.is_volume_backed
    read = (kind, page_sizes, *guest, build.limits, build.extra_resource)
    return hashlib.sha256(_sorted.encode(read)).hexdigest()
