"""The catalogue: the flavors that an operator asks about, those of live claims and of a file."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from rtagent.allocation.requirements import Requirements, from_request
from rtagent.errors import RequestError
from rtagent.model.assignment import CpuTopology
from rtagent.model.base import Value
from rtagent.model.claim import ATTACH, Claim
from rtagent.model.node_state import NodeState
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest, Flavor, Image, Instance, PciRequest

#: The number of flavors that are counted, as many as one metric has labels.
MAX_FLAVORS = 200
#: Digits of the digest in a name.
_DIGITS = 6
#: The owner of a request that stands for any.
_ANYONE = "ffffffff-ffff-4fff-8fff-ffffffffffff"
_NO_TOPOLOGY = CpuTopology(sockets=1, cores=1, threads=1)

_sorted = msgspec.json.Encoder(order="deterministic")
_decode = msgspec.json.Decoder(Instance).decode
#: Returns the requirements of a request, or why it is invalid, and a digest of what decides.
_Requiring = Callable[[BuildRequest], tuple[Requirements | str, str]]


class CatalogueFlavor(Value, frozen=True, kw_only=True):
    """One flavor, as its guests are built.

    :ivar name: that of the flavor, unique in the catalogue. A digest of what guests need follows,
        ``small#1a2b3c``, if the image, ports or a volume make them need something else than the
        flavor alone does, or if flavors of one name differ.
    :ivar build: the request of one more such guest.
    :ivar claims: the number of live claims like it. :ivar in_file: the operator's file lists it.
    :ivar required: what it needs on this host, or on any; None: see `error`.
    :ivar error: why no host with this configuration takes it, or "".
    :ivar digest: of what decides. :ivar alone: it is what the flavor alone needs.
    """

    name: str
    build: BuildRequest
    claims: int = 0
    in_file: bool = False
    required: Requirements | None = None
    error: str = ""
    digest: str = ""
    alone: bool = True

    @property
    def variant(self) -> str:
        """How its guests differ from guests of the flavor alone."""
        instance = self.build.instance
        ports = sum(each.count for each in instance.pci_requests)
        return "; ".join(
            (
                *(["root disk in a volume"] if instance.is_volume_backed else ()),
                *([f"{ports} devices requested beside the flavor"] if ports else ()),
                *(
                    f"image {name}={value}"
                    for name, value in sorted(instance.image.properties.items())
                    if name.startswith("hw_")
                ),
            )
        )

    def takes_devices(self, state: NodeState) -> bool:
        """Return whether its guests get PCI devices, or resources that are made from some."""
        required = self.required
        if required is None or not (required.devices or required.assigned_resources):
            return False
        made = {each.resource_class for each in state.resource_inventories if each.provider}
        return bool(required.devices) or not made.isdisjoint(required.assigned_resources)


class Catalogue(Value, frozen=True, kw_only=True):
    """All flavors, ordered by name. :ivar left_out: the number of those beyond `MAX_FLAVORS`."""

    flavors: tuple[CatalogueFlavor, ...] = ()
    left_out: int = 0


def catalogue(
    state: NodeState, listed: Sequence[Flavor] = (), only: str | None = None
) -> Catalogue:
    """Return the catalogue of a host.

    Claims of one flavor whose guests need the same are counted together. If there are too many
    flavors, those with the most claims stay, and then the first of the file.

    :param listed: the flavors of the operator's file, with different names.
    :param only: a name in the catalogue: return that flavor alone, also if it would be left out, or
        none.
    """
    guests = guests_of(state.claims.values())
    return _catalogue(partial(_requirements, state.policy), guests, listed, only)


def fleet_catalogue(
    guests: Mapping[bytes, int], listed: Sequence[Flavor] = (), only: str | None = None
) -> Catalogue:
    """Return the catalogue of a fleet, as `catalogue` does that of a host.

    Hosts have aliases of devices of their own, and filters read extra specs. So guests need the
    same if their extra specs are equal, too. What a flavor needs is without its devices.

    :param guests: what `guests_of` returns, of all hosts.
    """
    return _catalogue(_requirements_anywhere, guests, listed, only)


def guests_of(claims: Iterable[Claim]) -> Counter[bytes]:
    """Return the number of claims like each, by their request. Attached devices and damaged claims
    are left out.
    """
    whole = (claim for claim in claims if claim.kind != ATTACH and not claim.quarantined)
    return Counter(_sorted.encode(_instance(claim)) for claim in whole)


def _catalogue(
    requiring: _Requiring, guests: Mapping[bytes, int], listed: Sequence[Flavor], only: str | None
) -> Catalogue:
    if only is not None:
        listed = [flavor for flavor in listed if _is_of(only, _name(flavor))]
    file = _of_file(requiring, listed[:MAX_FLAVORS])
    merged: dict[tuple[str, str], CatalogueFlavor] = {}
    for flavor in (*file, *_of_claims(requiring, guests, only)):
        known = merged.setdefault((flavor.name, flavor.digest), flavor)
        if known is not flavor:
            claims = known.claims + flavor.claims
            merged[flavor.name, flavor.digest] = replace(known, claims=claims)
    flavors = list(_named(sorted(merged.values(), key=lambda each: -each.claims)))
    shown = [flavor for flavor in flavors if only in (None, flavor.name)][:MAX_FLAVORS]
    return Catalogue(
        flavors=tuple(sorted(shown, key=lambda each: each.name)),
        left_out=len(flavors) - len(shown) + max(0, len(listed) - MAX_FLAVORS),
    )


def _of_file(requiring: _Requiring, listed: Iterable[Flavor]) -> Iterator[CatalogueFlavor]:
    for flavor in listed:
        yield _flavor(requiring, Instance(uuid=_ANYONE, flavor=flavor), in_file=True)


def _of_claims(
    requiring: _Requiring, guests: Mapping[bytes, int], only: str | None
) -> Iterator[CatalogueFlavor]:
    """Yield the flavors of live claims, those of equal requests once."""
    for encoded, number in sorted(guests.items()):
        instance = _decode(encoded)
        if only is None or _is_of(only, _name(instance.flavor)):
            yield _flavor(requiring, instance, claims=number)


def _instance(claim: Claim) -> Instance:
    return Instance(
        uuid=_ANYONE,
        flavor=claim.flavor,
        image=claim.image,
        pci_requests=tuple(map(_of_anyone, claim.pci_requests)),
        is_volume_backed=claim.instance.is_volume_backed,
    )


def _of_anyone(request: PciRequest) -> PciRequest:
    """Return a request for devices without the ids of the port or the server that made it."""
    return replace(request, request_id=None, requester_id=None)


def _flavor(
    requiring: _Requiring, instance: Instance, *, claims: int = 0, in_file: bool = False
) -> CatalogueFlavor:
    build = BuildRequest(instance=instance)
    required, digest = requiring(build)
    alone = replace(instance, image=Image(), pci_requests=(), is_volume_backed=False)
    return CatalogueFlavor(
        name=_name(instance.flavor),
        build=build,
        claims=claims,
        in_file=in_file,
        required=required if isinstance(required, Requirements) else None,
        error=required if isinstance(required, str) else "",
        digest=digest,
        alone=requiring(replace(build, instance=alone))[1] == digest,
    )


def _requirements(policy: Policy, build: BuildRequest) -> tuple[Requirements | str, str]:
    """Return the requirements of a request, or why it is invalid, and a digest of what decides."""
    try:
        required = from_request(build, policy)
    except RequestError as error:
        return error.message, _digest(build)
    return required, _digest(_deciding(required))


def _requirements_anywhere(build: BuildRequest) -> tuple[Requirements | str, str]:
    """Return the same as `_requirements` without a host."""
    instance = build.instance
    try:
        required = from_request(build, Policy(), lambda *_: ())
    except RequestError as error:
        return error.message, _digest(build)
    others = instance.flavor.extra_specs, instance.pci_requests
    return required, _digest((_deciding(required), *others))


def _deciding(required: Requirements) -> Requirements:
    """Return the requirements without what a guest shows and what identifies its requests."""
    return replace(
        required,
        numa=replace(required.numa, cpu_topology=_NO_TOPOLOGY, locked_memory=False),
        devices=tuple(
            replace(each, request_id="", requester_id=None, alias_name=None, source="flavor_alias")
            for each in required.devices
        ),
        allocated={},
    )


def _digest(value: object) -> str:
    return hashlib.sha256(_sorted.encode(value)).hexdigest()


def _named(flavors: Sequence[CatalogueFlavor]) -> Iterator[CatalogueFlavor]:
    """Give each flavor a name of its own. The flavor alone, without image, ports and volume, keeps
    the plain name: that of the file, or else the one with the most claims.
    """
    owners: dict[str, str] = {}
    for flavor in sorted(flavors, key=lambda each: not each.in_file):
        if flavor.alone:
            owners.setdefault(flavor.name, flavor.digest)
    for flavor in flavors:
        plain = owners.get(flavor.name) == flavor.digest
        suffix = "" if plain else f"#{flavor.digest[:_DIGITS]}"
        yield replace(flavor, name=flavor.name + suffix)


def _name(flavor: Flavor) -> str:
    return flavor.name or flavor.flavorid or "unnamed"


def _is_of(name: str, flavor: str) -> bool:
    """Return whether a name in the catalogue can be that of a flavor."""
    return name == flavor or name.startswith(f"{flavor}#")
