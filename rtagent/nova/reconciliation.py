"""Reconciliation: the claims of a node follow the positive facts of Nova's database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from oslo_log import log

from rtagent.errors import RequestError
from rtagent.lifecycle.stated_units import HeldUnit, held_by_claims, without_units
from rtagent.model.assignment import AssignedResource
from rtagent.model.claim import Claim
from rtagent.model.guest import AdoptRequest
from rtagent.nova import guests
from rtagent.nova.holds import Hold, assignment
from rtagent.nova.nova_node import NovaNode

LOG = log.getLogger(__name__)


def adopt(node: NovaNode, hold: Hold) -> None:
    """Record a hold that has no claim, without the units that claims of others hold."""
    held = held_by_others(node, hold)
    request = without_units(_request(node, hold), {(each.kind, each.name) for each in held})
    try:
        node.adopt(request)
    except RequestError as error:
        LOG.error("What instance %s has here is not recorded: %s", hold.owner_id, error)


def held_by_others(node: NovaNode, hold: Hold) -> tuple[HeldUnit, ...]:
    """Return the units of a hold that claims of others hold."""
    return held_by_claims(node.state, hold.owner_id, hold.units)


def _request(node: NovaNode, hold: Hold) -> AdoptRequest:
    return AdoptRequest(
        instance=guests.instance(
            hold.instance,
            hold.flavor,
            hold.instance.image_meta,
            has_cells=node.has_cells,
            is_volume_backed=hold.is_volume_backed,
        ),
        numa_topology=assignment(hold.numa_topology),
        resources=tuple(
            AssignedResource(resource_class=each.resource_class, identifier=each.identifier)
            for each in hold.resources
        ),
        quantities=tuple(
            guests.requested_quantities(node.state, hold.flavor, hold.instance.image_meta)
        ),
        migration=guests.migration_facts(hold.migration) if hold.migration else None,
        role="source" if hold.prefix == "old_" else "dest",
    )


def reconcile(node: NovaNode, holds: Sequence[Hold]) -> None:
    """Release the claims that have no hold, and then adopt the holds that have no claim.

    Everything is released first: an instance may now have a host CPU that another one had before.

    :param holds: everything that Nova's database says is held on the node.
    """
    node.is_reconciled = False
    by_owner: dict[str, list[Hold]] = defaultdict(list)
    for hold in holds:
        by_owner[hold.owner_id].append(hold)
    for owner_id in set(node.state.owners) - set(by_owner):
        LOG.info("Claims of instance %s are released: Nova has nothing of it here", owner_id)
        node.release(owner_id)
    without = _release(node, by_owner)
    # Of two that have the same host CPU, a guest comes before the end of a move.
    for hold in sorted(without, key=lambda hold: hold.prefix is not None):
        LOG.info("What instance %s has here is adopted", hold.owner_id)
        adopt(node, hold)
    for hold in holds:
        _log_conflicts(node, hold)
    node.is_reconciled = True


def _release(node: NovaNode, by_owner: Mapping[str, Sequence[Hold]]) -> list[Hold]:
    """Release the claims that have no hold. Return the holds that have no claim.

    A claim that lacks a host CPU has its hold as long as another instance has that CPU. So a
    release can leave another claim without its hold.
    """
    while True:
        before, without = len(node.state.claims), list[Hold]()
        for owner_id, holds in by_owner.items():
            without += _release_of_owner(node, owner_id, holds)
        if len(node.state.claims) == before:
            return without


def _release_of_owner(node: NovaNode, owner_id: str, holds: Iterable[Hold]) -> list[Hold]:
    mains, without = list(node.mains(owner_id)), []
    for hold in holds:
        claim = _match(node, hold, mains)
        if claim is None:
            without.append(hold)
            continue
        mains.remove(claim)
        if hold.prefix is None:
            _settle(node, claim)
    node.release(owner_id, mains)
    return without


def _match(node: NovaNode, hold: Hold, mains: Sequence[Claim]) -> Claim | None:
    """Return the claim of a hold; None: there is none. The newest is at the destination."""
    matching = _matching(node, hold, mains)
    if not matching:
        return None
    return matching[-1] if hold.prefix == "new_" else matching[0]


def _matching(node: NovaNode, hold: Hold, mains: Sequence[Claim]) -> list[Claim]:
    held = {(each.kind, each.name) for each in held_by_others(node, hold)}
    return [claim for claim in mains if hold.matches(claim, held)]


def _log_conflicts(node: NovaNode, hold: Hold) -> None:
    held = held_by_others(node, hold) if hold.is_topology_known else ()
    if held:
        named = "; ".join(map(str, held))
        LOG.error("Not all that instance %s has here is recorded: %s", hold.owner_id, named)


def _settle(node: NovaNode, claim: Claim) -> None:
    try:
        node.settle(claim)
    except RequestError as error:
        LOG.warning("Claim %s of instance %s: %s", claim.uuid, claim.owner_id, error)


def claim_at_end(node: NovaNode, hold: Hold) -> Claim | None:
    """Return the claim of one end of a move; None: there is none.

    :param hold: of that end. If it does not say which claim it is, the newest is at the
        destination.
    """
    mains = node.mains(hold.owner_id)
    matching = _matching(node, hold, mains)
    if len(mains) > 1 and len(matching) == 1:
        return matching[0]
    if not mains:
        return None
    return mains[-1] if hold.prefix == "new_" else mains[0]
