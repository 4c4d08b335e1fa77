"""UsageTracker: the claims follow what Nova has of instances, migrations, devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any

from nova import exception, objects, utils
from nova.compute import resource_tracker, vm_states
from oslo_log import log

from rtagent.errors import RtAgentError
from rtagent.model.claim import Claim
from rtagent.model.request import AttachRequest, Instance
from rtagent.nova import guests
from rtagent.nova.guests import DeviceRequests
from rtagent.nova.holds import (
    Hold,
    end_here,
    has_come,
    has_new_flavor,
    has_new_topology,
    is_destination,
    is_evacuated_to,
    is_source,
    move_of,
    reverted_move,
)
from rtagent.nova.node_tracker import NodeTracker
from rtagent.nova.nova_node import NovaNode, awaits_devices
from rtagent.nova.reconciliation import reconcile

LOG = log.getLogger(__name__)
SEMAPHORE = resource_tracker.COMPUTE_RESOURCE_SEMAPHORE
#: What is read with an instance, as in Nova's audit.
_EXPECTED = ["system_metadata", "numa_topology", "flavor", "migration_context", "resources"]


class UsageTracker(NodeTracker):
    """Nova's audits and updates, which adopt and release claims; its calls for devices."""

    def _update_usage_from_instances(self, context: Any, instances: Any, nodename: str) -> Any:
        self._listed = instances
        by_uuid = super()._update_usage_from_instances(context, instances, nodename)
        self._holds = [
            self._hold(instance)
            for instance in instances
            if instance.uuid in self.tracked_instances
        ]
        return by_uuid

    def _update_usage_from_migrations(self, context: Any, migrations: Any, nodename: str) -> None:
        found = (
            self._before_the_end(context, hold, migrations, nodename) for hold in self._holds or ()
        )
        self._holds = [hold for hold in found if hold is not None]
        super()._update_usage_from_migrations(context, migrations, nodename)
        holds, self._holds = self._holds, None
        node = self.nodes[nodename]
        holds.extend(self._arrived(context, node, migrations, {hold.owner_id for hold in holds}))
        reconcile(node, holds)
        self._mdevs.adopt_running(node)
        if self._has_devices(node):
            here = {hold.owner_id: hold.instance for hold in holds if hold.prefix is None}
            self._rows.repair(node, here)

    def _arrived(
        self, context: Any, node: NovaNode, migrations: Iterable[Any], held: Set[str]
    ) -> Iterator[Hold]:
        """Yield the holds of instances that have claims here, and that Nova has not listed.

        :param held: the uuids of those that it has.
        """
        nodename = node.state.node.hypervisor_hostname
        for uuid in set(node.state.owners) - held:
            instance = _instance(context, uuid)
            if instance is None:
                continue
            hold = self._unlisted(context, instance, migrations, nodename)
            if hold is None:
                continue
            if hold.migration is None:
                # Nova frees the devices of instances that are not in its list.
                self._listed.objects.append(instance)
            yield hold

    def _unlisted(
        self, context: Any, instance: Any, migrations: Iterable[Any], nodename: str
    ) -> Hold | None:
        """Return what an instance has here that Nova has not listed; None: nothing.

        It may have come here in the meantime: when Nova read the instances of the host, it was
        elsewhere, and when Nova read the migrations, its own had ended. It may be coming back. Or
        it is evacuated: when it runs here, Nova first ends its task, and then notes that it is
        here; in between its audits count it nowhere.
        """
        if reverted := reverted_move(context, instance):
            return self._coming_back(instance, reverted, nodename)
        if (instance.host, instance.node) == (self.host, nodename):
            return None if _is_gone(instance) else self._hold(instance)
        move = move_of(instance, migrations)
        if move is None or not is_evacuated_to(move, self.host, nodename):
            return None
        return self._hold(instance, migration=move, prefix="new_")

    def _before_the_end(
        self, context: Any, hold: Hold, migrations: Iterable[Any], nodename: str
    ) -> Hold | None:
        """Return what a guest has here while a move is not finished; None: nothing.

        The instance may have the CPUs and devices of the destination already. Nova's audit applies
        them in memory, without the flavor, if any listed migration comes to this node. Nova's
        driver stores them when it undoes a live migration.
        """
        instance = hold.instance
        move = move_of(instance, migrations)
        if move is None and (reverted := reverted_move(context, instance)):
            return self._coming_back(instance, reverted, nodename)
        if move is not None and move.status != "error":
            return self._in_move(hold, move, nodename)
        if has_come(instance, migrations, self.host, nodename):
            return self._stored(context, hold.owner_id)
        if move is not None and move.is_live_migration and has_new_topology(instance):
            instance.revert_migration_context()
            return self._hold(instance)
        return hold

    def _in_move(self, hold: Hold, move: Any, nodename: str) -> Hold:
        """Return what a guest has here while its move goes on: at the source, what it had before;
        at the destination, what was claimed for the new flavor.
        """
        instance = hold.instance
        comes = is_destination(move, self.host, nodename)
        if comes and has_new_flavor(instance, move):
            return hold
        if is_source(move, self.host, nodename):
            instance.revert_migration_context()
            return self._hold(instance)
        if comes:
            return self._hold(instance, self._get_flavor(instance, "new_", move))
        return hold

    def _stored(self, context: Any, uuid: str) -> Hold | None:
        """Return what a guest has as it is stored; None: it is deleted."""
        instance = _instance(context, uuid)
        return None if instance is None else self._hold(instance)

    def _coming_back(self, instance: Any, move: Any, nodename: str) -> Hold | None:
        """Return what an instance comes back to in a revert; None: it comes back to another node.

        :param move: its migration, which has ended.
        """
        if not is_source(move, self.host, nodename):
            return None
        return self._hold(instance, instance.old_flavor, prefix="old_")

    def _update_usage_from_instance(
        self, context: Any, instance: Any, nodename: str, is_removed: bool = False
    ) -> None:
        uuid, node = instance["uuid"], self.nodes[nodename]
        is_new = uuid not in self.tracked_instances
        is_gone = not is_new and (is_removed or _is_gone(instance))
        if is_gone:
            self.tracked_instances.remove(uuid)
            self._release_assigned_resources(instance.resources)
            node.release(uuid)
        else:
            self.tracked_instances.add(uuid)
            node.update(guests.update(instance))
        self.stats[nodename].update_stats_for_instance(instance, is_gone)
        if (is_new or is_gone) and self.pci_tracker:
            sign = -1 if is_gone else 1
            self.pci_tracker.update_pci_for_instance(context, instance, sign=sign)
        if is_gone:
            self.is_bfv.pop(uuid, None)
        self._project(nodename)

    def _update_usage_from_migration(
        self, context: Any, instance: Any, migration: Any, nodename: str
    ) -> None:
        """Note a hold of a move. Nova's method decides whether there is one."""
        uuid = migration.instance_uuid
        before = self.tracked_migrations.pop(uuid, None)
        super()._update_usage_from_migration(context, instance, migration, nodename)
        if uuid not in self.tracked_migrations:
            if before is not None:
                self.tracked_migrations[uuid] = before
            return
        prefix = end_here(instance, migration, self.host, nodename)
        hold = self._hold(
            instance, self._get_flavor(instance, prefix, migration), migration, prefix
        )
        if self._holds is not None:
            self._holds.append(hold)
        self._project(nodename)

    # -- devices alone --------------------------------------------------------------------------

    @utils.synchronized(SEMAPHORE, fair=True)
    def claim_pci_devices(
        self, context: Any, pci_requests: Any, instance_numa_topology: Any
    ) -> list[Any]:
        """Claim devices to attach, or those of a live migration. Return their rows.

        :raises exception.PciDeviceRequestFailed: refused, or it is not known yet what is held.
        """
        node = self._device_node()
        if node is None or not self.pci_tracker.pci_devs or not pci_requests.requests:
            return []
        owner_id = pci_requests.instance_uuid
        if not node.is_reconciled:
            LOG.error("Devices for instance %s are refused until an audit has succeeded", owner_id)
            raise exception.PciDeviceRequestFailed(requests=pci_requests)
        requests = self._device_requests(node, pci_requests)
        ids = {request.request_id for request in requests.requests}
        given = [
            device
            for claim in filter(awaits_devices, node.mains(owner_id))
            for device in claim.pci
            if device.request_id in ids
        ]
        if not given:
            given = list(_attach(node, pci_requests, requests, instance_numa_topology).pci)
        taken = self._rows.take(owner_id, pci_requests.requests, given)
        self.pci_tracker.save(context)
        return taken

    def unclaim_pci_devices(self, context: Any, pci_device: Any, instance: Any) -> None:
        """Give back a claimed device."""
        super().unclaim_pci_devices(context, pci_device, instance)
        self._settle_devices()

    def free_pci_device_allocations_for_instance(self, context: Any, instance: Any) -> None:
        """Give back the devices that an instance uses."""
        super().free_pci_device_allocations_for_instance(context, instance)
        self._settle_devices()

    def free_pci_device_claims_for_instance(self, context: Any, instance: Any) -> None:
        """Give back the devices that an instance has claimed and does not use."""
        super().free_pci_device_claims_for_instance(context, instance)
        self._settle_devices()

    @utils.synchronized(SEMAPHORE, fair=True)
    def _settle_devices(self) -> None:
        if node := self._device_node():
            self._rows.settle(node)


def _instance(context: Any, uuid: str) -> Any:
    """Return an instance as it is stored; None: it is deleted."""
    try:
        return objects.Instance.get_by_uuid(context, uuid, _EXPECTED)
    except exception.InstanceNotFound:
        return None


def _is_gone(instance: Any) -> bool:
    """Return whether an instance that Nova still has here has no resources any more."""
    return bool(
        vm_states.allow_resource_removal(vm_state=instance.vm_state, task_state=instance.task_state)
    )


def _attach(node: NovaNode, pci_requests: Any, requests: DeviceRequests, topology: Any) -> Claim:
    mains = node.mains(pci_requests.instance_uuid)
    flavor = mains[0].flavor if mains else guests.NO_FLAVOR
    request = AttachRequest(
        instance=Instance(uuid=pci_requests.instance_uuid, flavor=flavor),
        pci_requests=requests.requests,
        allocations=requests.allocations,
        provider_mapping=requests.provider_mapping,
    )
    cells = [cell.id for cell in topology.cells] if topology else []
    try:
        return node.attach(request, cells)
    except RtAgentError as error:
        LOG.info("Devices for instance %s are refused: %s", pci_requests.instance_uuid, error)
        raise exception.PciDeviceRequestFailed(requests=pci_requests) from error
