"""ResourceTracker with Nova's interface: rtagent decides and counts, Nova's rows are written after.

It is Nova's tracker without its decisions and sums. Placement and the life of the rows stay Nova's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nova import exception, objects, utils
from nova.compute import claims, resource_tracker
from nova.pci import request as pci_request
from nova.virt import hardware
from oslo_log import log

from rtagent.errors import ComputeResourcesUnavailable, RtAgentError
from rtagent.model.claim import Claim
from rtagent.model.decision import nova_reason
from rtagent.model.migration import MoveRequest, SourceFacts
from rtagent.model.request import BuildRequest
from rtagent.nova import guests, holds
from rtagent.nova.guests import limits as limits_of
from rtagent.nova.guests import quantities
from rtagent.nova.holds import of_context
from rtagent.nova.nova_node import NovaNode, awaits_devices
from rtagent.nova.reconciliation import claim_at_end
from rtagent.nova.releases import forget_device_providers
from rtagent.nova.usage_tracker import UsageTracker

LOG = log.getLogger(__name__)
SEMAPHORE = resource_tracker.COMPUTE_RESOURCE_SEMAPHORE


@contextmanager
def refusals(instance: Any, *, live: bool = False) -> Iterator[None]:
    """Raise Nova's error for a claim that is refused, or that cannot be decided.

    :param live: the claim is a live migration's.
    :raises exception.ComputeResourcesUnavailable:
    """
    try:
        yield
    except RtAgentError as error:
        LOG.info("Failed to claim: %s", error, instance=instance)
        reason = error.message
        if isinstance(error, ComputeResourcesUnavailable):
            reason = nova_reason(error.kwargs["reasons"], live_migration=live)
        raise exception.ComputeResourcesUnavailable(reason=reason) from error


class GrantedClaim(claims.Claim):
    """What Nova's compute manager gets, and ends: rtagent has granted it."""

    def _claim_test(self, compute_node: Any, limits: Any = None) -> None:
        """Do nothing: it is decided."""


class GrantedMoveClaim(claims.MoveClaim):
    """The same for a move."""

    def _claim_test(self, compute_node: Any, limits: Any = None) -> None:
        """Do nothing: it is decided."""


class ResourceTracker(UsageTracker):
    """Takes the place of Nova's class, see `rtagent.nova.hook`."""

    @utils.synchronized(SEMAPHORE, fair=True)
    def instance_claim(
        self, context: Any, instance: Any, nodename: str, allocations: Any, limits: Any = None
    ) -> Any:
        """Claim resources for a build, or for a guest that is unshelved."""
        self._check_known(instance, nodename)
        compute_node, node = self.compute_nodes[nodename], self.nodes[nodename]
        requests = instance.pci_requests
        with refusals(instance):
            given = node.build(
                self._request(
                    node, instance, instance.flavor, instance.image_meta, requests, limits
                ),
                tuple(quantities(node.state, allocations)),
            )
        claim = GrantedClaim(
            context, instance, nodename, self, compute_node, requests, limits=limits
        )
        claim.claimed_numa_topology = holds.nova_topology(
            instance.numa_topology, given.numa_topology
        )
        instance.numa_topology = claim.claimed_numa_topology
        # Nova keeps the context of a failed move, and its audit would apply it.
        instance.migration_context = None
        self._set_instance_host_and_node(instance, compute_node)
        self._rows.take(instance.uuid, requests.requests, given.pci)
        with _released_on_error(node, given):
            instance.resources = self._members(allocations, given)
        forget_device_providers(self, allocations)
        self._update_usage_from_instance(context, instance, nodename)
        self._update(context.elevated(), compute_node)
        return claim

    def _move_claim(
        self,
        context: Any,
        instance: Any,
        new_flavor: Any,
        nodename: str,
        migration: Any,
        allocations: Any,
        move_type: Any = None,
        image_meta: Any = None,
        limits: Any = None,
    ) -> Any:
        """Claim resources for a guest that is to arrive, or is resized here."""
        self._check_known(instance, nodename)
        node, image_meta = self.nodes[nodename], image_meta or {}
        compute_node = self.compute_nodes[nodename]
        if migration:
            self._claim_existing_migration(migration, compute_node)
        else:
            migration = self._create_migration(
                context, instance, new_flavor, compute_node, move_type
            )
        requests = _requests_of_move(instance, new_flavor)
        # Nova claims the devices of a live migration later, by the requests that the guest has.
        wanted = instance.pci_requests if migration.is_live_migration else requests
        with refusals(instance, live=migration.is_live_migration):
            build = self._request(node, instance, new_flavor, image_meta, wanted, limits)
            given = node.move(
                _move_request(instance, migration, build),
                tuple(quantities(node.state, allocations)),
            )
        claim = GrantedMoveClaim(
            *(context, instance, nodename, new_flavor, image_meta, self),
            *(compute_node, requests, migration),
            limits=limits,
        )
        claim.claimed_numa_topology = holds.nova_topology(
            hardware.numa_get_constraints(new_flavor, claim.image_meta), given.numa_topology
        )
        taken = () if awaits_devices(given) else given.pci
        rows = self._rows.take(instance.uuid, requests.requests, taken)
        with _released_on_error(node, given):
            resources = self._members(allocations, given)
        self._save_move(instance, claim, rows, resources)
        forget_device_providers(self, allocations)
        self._update_usage_from_migration(context, instance, migration, nodename)
        self._update(context.elevated(), compute_node)
        return claim

    def _save_move(self, instance: Any, claim: Any, rows: list[Any], resources: Any) -> None:
        """Write what the instance has at both ends of a move."""
        instance.migration_context = objects.MigrationContext(
            context=claim.context,
            instance_uuid=instance.uuid,
            migration_id=claim.migration.id,
            old_numa_topology=instance.numa_topology,
            new_numa_topology=claim.claimed_numa_topology,
            # The list of the instance gets the new devices afterwards.
            old_pci_devices=copy.deepcopy(instance.pci_devices),
            new_pci_devices=objects.PciDeviceList(objects=rows),
            old_pci_requests=instance.pci_requests,
            new_pci_requests=claim._pci_requests,
            old_resources=instance.resources,
            new_resources=resources,
        )
        instance.save()

    def _drop_move_claim(
        self, context: Any, instance: Any, nodename: str, flavor: Any = None, prefix: Any = "new_"
    ) -> None:
        """Release the claim of one end of a move."""
        migration = self.tracked_migrations.get(instance["uuid"])
        if migration is not None and not flavor:
            flavor = self._get_flavor(instance, prefix, migration)
        if flavor is not None:
            node = self.nodes[nodename]
            hold = self._hold(instance, flavor, migration, prefix)
            claim = claim_at_end(node, hold)
            if claim is not None:
                node.release(hold.owner_id, (claim,))
            self._drop_pci_devices(instance, nodename, prefix)
            self._release_assigned_resources(of_context(instance, "resources", prefix))
            self._update(context.elevated(), self.compute_nodes[nodename])
        self.tracked_migrations.pop(instance["uuid"], None)
        # A guest that was resized on this host stays. Nova forgets it until its next audit, and so
        # what it has, if it is deleted before.
        if nodename not in self.nodes or not self.nodes[nodename].mains(instance["uuid"]):
            self.tracked_instances.discard(instance["uuid"])

    def _check_known(self, instance: Any, nodename: str) -> None:
        """:raises exception.ComputeResourcesUnavailable: this service does not have the node, or
        does not know yet what is held there.
        """
        if self.disabled(nodename):
            raise exception.ComputeResourcesUnavailable(
                f"Attempt to claim resources for instance {instance.uuid} on unknown node"
                f" {nodename} failed"
            )
        node = self.nodes.get(nodename)
        if node is not None and not node.is_reconciled:
            raise exception.ComputeResourcesUnavailable(
                f"Node {nodename} takes no claim until an audit of it has succeeded, because its"
                " claims may lack some of its guests. The log says why the last audit failed"
            )

    def _request(
        self,
        node: NovaNode,
        instance: Any,
        flavor: Any,
        image_meta: Any,
        pci_requests: Any,
        limits: Any,
    ) -> BuildRequest:
        devices = self._device_requests(node, pci_requests)
        return BuildRequest(
            instance=guests.instance(
                instance,
                flavor,
                image_meta,
                devices.requests,
                has_cells=node.has_cells,
                is_volume_backed=self._is_volume_backed(instance),
            ),
            limits=limits_of(limits),
            allocations=devices.allocations,
            provider_mapping=devices.provider_mapping,
        )


def _move_request(instance: Any, migration: Any, build: BuildRequest) -> MoveRequest:
    live = migration.is_live_migration
    cells = instance.numa_topology.cells if live and instance.numa_topology else ()
    return MoveRequest(
        build=build,
        migration=guests.migration_facts(migration),
        old_flavor=guests.flavor(instance.flavor),
        source=SourceFacts(page_sizes=tuple(cell.pagesize for cell in cells)),
    )


def _requests_of_move(instance: Any, new_flavor: Any) -> Any:
    """Return the InstancePCIRequests of the new flavor, and those of the instance's ports."""
    requests = pci_request.get_pci_requests_from_flavor(new_flavor)
    requests.instance_uuid = instance.uuid
    requests.requests += [
        request
        for request in (instance.pci_requests.requests if instance.pci_requests else ())
        if request.source == objects.InstancePCIRequest.NEUTRON_PORT
    ]
    return requests


@contextmanager
def _released_on_error(node: NovaNode, claim: Claim) -> Iterator[None]:
    """Release a claim if Nova cannot give the instance a resource that rtagent does not count."""
    try:
        yield
    except exception.ComputeResourcesUnavailable:
        node.release(claim.owner_id, (claim,))
        raise
