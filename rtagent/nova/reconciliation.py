"""Reconciliation: the claims of a node follow the positive facts of Nova's database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from oslo_log import log

from rtagent.errors import RequestError
from rtagent.model.adopt_request import AdoptRequest
from rtagent.model.assigned_resources import AssignedResource
from rtagent.model.claim import Claim
from rtagent.nova import guests, migrations
from rtagent.nova.guest_cells import assignment
from rtagent.nova.holds import Hold
from rtagent.nova.nova_node import NovaNode

LOG = log.getLogger(__name__)


def reconcile(node: NovaNode, holds: Iterable[Hold]) -> None:
    """Adopt the holds that have no claim, and release the claims that have no hold.

    :param holds: everything that Nova's database says is held on the node.
    """
    by_owner: dict[str, list[Hold]] = defaultdict(list)
    for hold in holds:
        by_owner[hold.owner_id].append(hold)
    for owner_id in {*node.state.owners, *by_owner}:
        if owner_id in by_owner:
            _reconcile_owner(node, owner_id, by_owner[owner_id])
        else:
            LOG.info("Claims of instance %s are released: Nova has nothing of it here", owner_id)
            node.release(owner_id)


def adopt(node: NovaNode, hold: Hold) -> None:
    """Record a hold that has no claim. What another instance has is logged, and not recorded."""
    has_cells = bool(node.report.get("numa_topology"))
    resources = hold.resources
    request = AdoptRequest(
        instance=guests.instance(
            hold.instance,
            guests.flavor(hold.flavor, has_cells=has_cells),
            guests.image(hold.instance.image_meta, has_cells=has_cells),
            is_volume_backed=hold.is_volume_backed,
        ),
        numa_topology=assignment(hold.numa_topology),
        resources=tuple(
            AssignedResource(resource_class=each.resource_class, identifier=each.identifier)
            for each in resources
        ),
        migration=migrations.facts(hold.migration) if hold.migration else None,
        role="source" if hold.prefix == "old_" else "dest",
    )
    try:
        node.adopt(request)
    except RequestError as error:
        LOG.error("What instance %s has here is not recorded: %s", hold.owner_id, error)


def _reconcile_owner(node: NovaNode, owner_id: str, holds: Iterable[Hold]) -> None:
    mains, without = list(node.mains(owner_id)), []
    for hold in holds:
        claim = _match(hold, mains)
        if claim is None:
            without.append(hold)
            continue
        mains.remove(claim)
        if hold.prefix is None:
            _settle(node, claim)
    node.release(owner_id, mains)
    for hold in without:
        LOG.info("What instance %s has here is adopted", owner_id)
        adopt(node, hold)


def _match(hold: Hold, mains: Iterable[Claim]) -> Claim | None:
    """Return the claim of a hold; None: there is none. The newest is at the destination."""
    matching = list(filter(hold.matches, mains))
    if not matching:
        return None
    return matching[-1] if hold.prefix == "new_" else matching[0]


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
    matching = list(filter(hold.matches, mains))
    if len(mains) > 1 and len(matching) == 1:
        return matching[0]
    if not mains:
        return None
    return mains[-1] if hold.prefix == "new_" else mains[0]
