"""Adoptions: claims of what Nova's database says that an instance has on a node."""

from __future__ import annotations

from oslo_log import log

from rtagent.errors import RequestError
from rtagent.lifecycle.stated_units import HeldUnit, held_by_claims, without_units
from rtagent.model.assignment import AssignedResource
from rtagent.model.guest import AdoptRequest
from rtagent.nova import guests, migrations
from rtagent.nova.guest_cells import assignment
from rtagent.nova.holds import Hold
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
    has_cells = bool(node.report.get("numa_topology"))
    return AdoptRequest(
        instance=guests.instance(
            hold.instance,
            guests.flavor(hold.flavor, has_cells=has_cells),
            guests.image(hold.instance.image_meta, has_cells=has_cells),
            is_volume_backed=hold.is_volume_backed,
        ),
        numa_topology=assignment(hold.numa_topology),
        resources=tuple(
            AssignedResource(resource_class=each.resource_class, identifier=each.identifier)
            for each in hold.resources
        ),
        migration=migrations.facts(hold.migration) if hold.migration else None,
        role="source" if hold.prefix == "old_" else "dest",
    )
