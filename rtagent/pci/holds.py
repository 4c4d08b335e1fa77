"""Who holds which device, and which specific resource: by the claims, and by what domains were seen
to use without one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from rtagent.model.claim import LEASED_STATES, SPECIFIC, Claim
from rtagent.model.holding import Holding
from rtagent.model.host import HostState
from rtagent.model.remembered import remembered
from rtagent.model.specific import SpecificInventory
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.states import Hold, Holdings


@remembered
def holdings(state: HostState) -> Holdings:
    """All devices of a host, and who holds what of them."""
    return Holdings(state.devices, holds(state))


def holds(state: HostState) -> Iterator[Hold]:
    """Every hold on a device; whoever has a part of one that makes others has hold of it. Those on
    the whole come first, claims' before domains', each in the order of the owners."""
    yield from device_holds(state)
    for claim in _by_owner(claim for claim in state.claims.values() if claim.resources):
        for unit in claim.resources:
            if unit.provider:
                yield _claimed(claim, unit.provider)
    for holding in _by_uuid(each for each in state.holdings.values() if each.occupancy.makers):
        yield from _given(holding, holding.occupancy.makers)


def device_holds(state: HostState) -> Iterator[Hold]:
    """Holds on devices that are given away whole."""
    for claim in _by_owner(claim for claim in state.claims.values() if claim.pci):
        for device in claim.pci:
            yield _claimed(claim, device.address)
    for holding in _by_uuid(each for each in state.holdings.values() if each.occupancy.devices):
        yield from _given(holding, holding.occupancy.devices)


def holders(state: HostState) -> Mapping[str, str]:
    """The owner of each specific resource that is held, by identifier."""
    held = {name: owner for (kind, name), owner in state.units.items() if kind == SPECIFIC}
    return {**_used(state), **held}


def offered(state: HostState) -> tuple[SpecificInventory, ...]:
    """What there is of specific resources, but for what devices make that are given away whole, for
    what is free of those that are kept back, and for as many of what another makes as are held
    beyond what it makes now."""
    whole = {hold.address for hold in device_holds(state)}
    held = holders(state)
    return tuple(
        _held(each, held) if _kept_back(state, each.provider) else _within(each, held)
        for each in state.specific
        if each.provider not in whole
    )


def _kept_back(state: HostState, provider: str) -> bool:
    tracked = state.devices.get(provider)
    return tracked is not None and tracked.quarantine is not None


def _held(made: SpecificInventory, held: Collection[str]) -> SpecificInventory:
    return replace(made, identifiers=tuple(name for name in made.identifiers if name in held))


def _within(made: SpecificInventory, held: Collection[str]) -> SpecificInventory:
    its = [name for name in held if made.provider and name.startswith(f"{made.provider}/")]
    beyond = len(set(its).difference(made.identifiers))
    free = [name for name in made.identifiers if name not in held]
    gone = free[-beyond:] if beyond else ()
    return replace(made, identifiers=tuple(n for n in made.identifiers if n not in gone))


def _by_owner(claims: Iterable[Claim]) -> list[Claim]:
    return sorted(claims, key=lambda claim: claim.owner_id)


def _by_uuid(domains: Iterable[Holding]) -> list[Holding]:
    return sorted(domains, key=lambda domain: domain.domain_uuid)


def _given(domain: Holding, addresses: Iterable[str]) -> Iterator[Hold]:
    """A domain that does not run has nothing in its hands."""
    for address in sorted(addresses) if domain.active else ():
        yield Hold(address=address, owner_id=domain.domain_uuid, allocated=True)


def _claimed(claim: Claim, address: str) -> Hold:
    return Hold(
        address=address, owner_id=claim.owner_id, allocated=claim.state not in LEASED_STATES
    )


def _used(state: HostState) -> dict[str, str]:
    """The domain that uses each specific resource, without a claim or beside it, by identifier."""
    used = {
        uuid: holding.domain_uuid
        for holding in state.holdings.values()
        if holding.active
        for uuid in holding.occupancy.mdevs
    }
    if not used:
        return {}
    made = (name for each in state.specific if each.provider for name in each.identifiers)
    named = {name: mdev_uuid(state.node.uuid, name) for name in made}
    return {name: used[uuid] for name, uuid in named.items() if uuid in used}
