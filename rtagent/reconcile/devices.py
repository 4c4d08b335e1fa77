"""What an observation asks to be changed of devices, and of what they make."""

from __future__ import annotations

from collections.abc import Iterator

from rtagent.model.host import HostState, device_key
from rtagent.model.observation import Observation, Problem
from rtagent.model.specific import SpecificInventory
from rtagent.pci.holds import device_holds, holders
from rtagent.pci.mdev import mdev_inventories, ours
from rtagent.pci.record import refresh
from rtagent.pci.reporting import forbidden
from rtagent.reconcile.step import Step

#: The key of what there is of specific resources, which only audits change.
SPECIFIC = "specific"


def device_steps(base: HostState, seen: Observation) -> Iterator[Step]:
    """One for each device whose record is to be another. What nobody offers is recorded first: its
    relatives are offered only when it is known to be in somebody's hands."""
    if seen.devices is None:
        return
    used = {
        address
        for domain in seen.domains.values()
        if domain.active
        for address in domain.occupancy.devices
    }
    held = used.union(hold.address for hold in device_holds(base))
    news = refresh(base.devices, seen.devices, base.policy.pci.specs, held)
    for device in sorted(news.puts, key=lambda each: (each.listed, each.address)):
        yield Step(key=device_key(device.address), device=device)
    for address in news.removals:
        yield Step(key=device_key(address), removal=address)


def touched_devices(base: HostState, step: Step) -> frozenset[str]:
    """The keys of the devices that are, or were, in the hands of the owner of a step."""
    held = [device.address for claim in base.claims_of(step.key) for device in claim.pci]
    for holding in (base.holdings.get(step.key), step.hold):
        held += holding.occupancy.devices if holding else ()
    return frozenset(map(device_key, held))


def specific_steps(base: HostState, seen: Observation) -> Iterator[Step]:
    """What devices make and what the operator names, when that has changed."""
    there = (*_made(base, seen), *base.policy.pci.pmem)
    if there != base.specific:
        yield Step(key=SPECIFIC, specific=there)


def device_problems(base: HostState, seen: Observation) -> tuple[Problem, ...]:
    """Devices that a specification matches and may not: they are not offered, or not told to
    Placement."""
    return tuple(
        Problem(item="[pci] device_spec", message=error.message)
        for error in forbidden(base.policy.pci, seen.devices or ())
    )


def _made(base: HostState, seen: Observation) -> tuple[SpecificInventory, ...]:
    if seen.devices is None:
        return tuple(each for each in base.specific if each.provider)
    held = holders(base).keys()
    known = held | {name for each in base.specific for name in each.identifiers}
    existing = ours(base.node.uuid, seen.devices, seen.mdevs, known)
    return mdev_inventories(base.policy.pci.mdev_types, seen.devices, existing, held)
