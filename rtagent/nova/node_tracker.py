"""NodeTracker: Nova's tracker with a node of rtagent's for each of its nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import os_resource_classes as orc
from msgspec.structs import replace
from nova import exception, objects, utils
from nova.compute import resource_tracker
from nova.compute.pci_placement_translator import ensure_no_dev_spec_with_devname

from rtagent.conf.settings import Settings
from rtagent.errors import ConfigError
from rtagent.model.claim import ATTACH, Claim
from rtagent.model.mem_encryption import MODELS, provider_suffix
from rtagent.model.node_state import NodeState
from rtagent.model.provider_names import device_suffix, mdev_suffix
from rtagent.model.units import MB_IN_GB
from rtagent.nova.device_rows import DeviceRows, pools
from rtagent.nova.driver_mdevs import DriverMdevs
from rtagent.nova.driver_report import contexts
from rtagent.nova.guests import DeviceRequests, device_requests
from rtagent.nova.holds import Hold, of_context
from rtagent.nova.node_settings import (
    default_options,
    node_settings,
    provider_files,
    settings_in,
    state_directory,
)
from rtagent.nova.nova_node import NovaNode
from rtagent.state.compute_node import numa_topology, quantities


def project(node: NovaNode, compute_node: Any, stats: Any) -> None:
    """Set the used and free quantities of a ComputeNode.

    :param stats: Nova's statistics of the node.
    """
    state = node.state
    compute_node.memory_mb_used = quantities(state)["memory_mb_used"]
    # Nova drops what is less than a GB of each amount.
    compute_node.local_gb_used = state.policy.reserved_disk_mb // MB_IN_GB + sum(
        claim.disk_mb // MB_IN_GB for claim in state.claims.values()
    )
    compute_node.free_ram_mb = compute_node.memory_mb - compute_node.memory_mb_used
    compute_node.free_disk_gb = compute_node.local_gb - compute_node.local_gb_used
    # Nova counts the vCPUs of flavors, and not the CPUs of emulators.
    compute_node.vcpus_used = state.policy.reserved_cpus + sum(
        claim.flavor.vcpus for claim in state.claims.values() if claim.kind != ATTACH
    )
    compute_node.running_vms = stats.num_instances
    compute_node.current_workload = stats.calculate_workload()
    compute_node.stats = stats
    if node.has_cells:
        compute_node.numa_topology = _numa(state, node.report["numa_topology"])


def _numa(state: NodeState, reported: str) -> str:
    """Return the stored NUMATopology: the driver's, with the usage of the claims."""
    topology = objects.NUMATopology.obj_from_db_obj(reported)
    document = numa_topology(state) or {"cells": ()}
    used = {cell["id"]: cell for cell in document["cells"]}
    for cell in topology.cells:
        mine = used[cell.id]
        cell.cpu_usage = mine["cpu_usage"]
        cell.memory_usage = mine["memory_usage"]
        cell.pinned_cpus = set(mine["pinned_cpus"])
        pages = {page["size_kb"]: page["used"] for page in mine["mempages"]}
        for page in cell.mempages:
            page.used = pages.get(page.size_kb, 0)
    return str(topology._to_json())


class PlacementReports:
    """Passes everything on to Nova's client.

    Before each update of a provider tree, Nova reads the allocations of all guests, one request for
    each, in case an inventory moves to another provider of the tree. That happens only at the start
    of the service, and with PCI devices in Placement.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._thread = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @contextmanager
    def without_allocations(self) -> Iterator[None]:
        """While it is entered, this thread reads no allocations of provider trees."""
        self._thread.skips = True
        try:
            yield
        finally:
            self._thread.skips = False

    def get_allocations_for_provider_tree(self, context: Any, nodename: str) -> Any:
        """Return the allocations by consumer, or none."""
        if getattr(self._thread, "skips", False):
            return {}
        return self._client.get_allocations_for_provider_tree(context, nodename)


#: The resource class of each option.
_RATIOS = {
    "cpu_allocation_ratio": orc.VCPU,
    "ram_allocation_ratio": orc.MEMORY_MB,
    "disk_allocation_ratio": orc.DISK_GB,
}
CONF = resource_tracker.CONF


class Migrations(dict[str, Any]):
    """Nova's migrations, by the instance: one thread reads them while another writes."""

    def values(self) -> Any:
        return list(super().values())


class NodeTracker(resource_tracker.ResourceTracker):
    """Observes the nodes, and writes Nova's rows from their states.

    :ivar nodes: by hypervisor hostname. :cvar options: rtagent's own.
    """

    options = default_options()

    def __init__(self, host: str, driver: Any, reportclient: Any = None) -> None:
        super().__init__(host, driver, reportclient)
        self.nodes: dict[str, NovaNode] = {}
        self._files = provider_files(CONF)
        self._mdevs = DriverMdevs(driver, self.reportclient, lambda: tuple(self.nodes.values()))
        self.reportclient: Any = PlacementReports(self.reportclient)
        # What the audit of a node has still to do with Placement, by the name of the node.
        self._due: dict[str, list[Callable[[], None]]] = {}
        self.tracked_migrations = Migrations()
        # During an audit, until claims and rows agree: what Nova's database says is held.
        self._holds: list[Hold] | None = None
        # The InstanceList of the last audit.
        self._listed: Any = None

    def remove_node(self, nodename: str) -> None:
        super().remove_node(nodename)
        if node := self.nodes.pop(nodename, None):
            node.close()

    # -- what is observed -----------------------------------------------------------------------

    def _init_compute_node(self, context: Any, resources: Any) -> bool:
        self._holds = []
        report = dict(resources)  # Nova's method removes the devices
        is_new: bool = super()._init_compute_node(context, resources)
        nodename = resources["hypervisor_hostname"]
        self._due[nodename] = []
        if nodename in self.compute_nodes:
            compute_node = self.compute_nodes[nodename]
            if CONF.pci.report_in_placement and self.pci_tracker:
                # Nova ends with this error, and would log one of ours.
                ensure_no_dev_spec_with_devname(self.pci_tracker.dev_filter.specs)
            own = settings_in(self.options, state_directory(CONF))
            own = replace(own, provider_files=self._files)
            settings = node_settings(CONF, compute_node, report, own, self._ratios(nodename))
            if is_opened := nodename not in self.nodes:
                try:
                    self.nodes[nodename] = self._open_node(compute_node, settings)
                except ConfigError as error:  # else Nova would start without this node
                    raise exception.InvalidConfiguration(str(error)) from error
            node = self.nodes[nodename]
            node.observe(settings, report, self._mdevs.host(), contexts(self.driver))
            if is_opened and self._has_devices(node):
                self._rows.give_back_awaited(node)
            self._record_providers(nodename)
        return is_new

    def _open_node(self, compute_node: Any, settings: Settings) -> NovaNode:
        return NovaNode(compute_node, settings)

    def update_available_resource(self, context: Any, nodename: str, startup: bool = False) -> None:
        """Audit a node. Claims do not wait while Placement is read and written."""
        super().update_available_resource(context, nodename, startup=startup)
        self._settle_with_placement(nodename)

    @utils.synchronized("rtagent_placement", fair=True)
    def _settle_with_placement(self, nodename: str) -> None:
        with self.reportclient.without_allocations():
            for each in self._due.pop(nodename, ()):
                each()

    def _remove_deleted_instances_allocations(self, *arguments: Any) -> None:
        _, compute_node, *_ = arguments
        self._due[compute_node.hypervisor_hostname].append(
            partial(super()._remove_deleted_instances_allocations, *arguments)
        )

    def _update_to_placement(self, context: Any, compute_node: Any, startup: bool) -> None:
        nodename = compute_node.hypervisor_hostname
        # A node that comes from another host is saved before it is known.
        if startup or CONF.pci.report_in_placement or nodename not in self.nodes:
            super()._update_to_placement(context, compute_node, startup)
            self._record_providers(nodename)
        elif nodename in self._due:
            # A claim concerns Placement only by its devices: an audit writes the rest.
            update = super()._update_to_placement
            self._due[nodename].append(partial(update, context, compute_node, startup))

    def _record_providers(self, nodename: str) -> None:
        """Record what Nova has learned from the driver and from Placement."""
        if node := self.nodes.get(nodename):
            node.set_namespaces(self._resources(nodename))
            node.set_ratios(self._ratios(nodename))
            node.set_providers(dict(self._device_providers(nodename)))

    def _device_providers(self, nodename: str) -> Iterator[tuple[str, str]]:
        """Yield the suffix and the uuid of each provider of devices, and of those of the driver,
        which keep what was known before Nova has read its providers.
        """
        node, tree = self.nodes[nodename], self.provider_tree
        if CONF.pci.report_in_placement and self._has_devices(node):
            for address, uuid in self._rows.providers.items():
                yield device_suffix(address), uuid
        mediated = (mdev_suffix(parent.address) for parent in node.mdevs.parents)
        for suffix in (*mediated, *map(provider_suffix, MODELS)):
            if tree is not None and tree.exists(f"{nodename}_{suffix}"):
                yield suffix, tree.data(f"{nodename}_{suffix}").uuid
            elif suffix in node.providers:
                yield suffix, node.providers[suffix]

    def _ratios(self, nodename: str) -> dict[str, float]:
        """Return Placement's allocation ratios, as far as Nova's client knows them: an operator
        may have changed them there.
        """
        tree = self.provider_tree
        if tree is None or not tree.exists(nodename):
            return {}
        inventories = tree.data(nodename).inventory or {}
        return {
            option: inventories[name]["allocation_ratio"]
            for option, name in _RATIOS.items()
            if "allocation_ratio" in inventories.get(name, {})
        }

    def _resources(self, nodename: str | None = None) -> Iterator[Any]:
        """Yield the Resource objects of the driver's provider tree."""
        tree = self.provider_tree
        if tree is None or (nodename is not None and not tree.exists(nodename)):
            return
        for uuid in tree.get_provider_uuids(nodename):
            for members in (tree.data(uuid).resources or {}).values():
                yield from members

    # -- what is written ------------------------------------------------------------------------

    def _update_usage(self, usage: Any, nodename: str, sign: int = 1) -> None:
        """Do nothing: rtagent counts."""

    def _report_final_resource_view(self, nodename: str) -> None:
        self._project(nodename)
        super()._report_final_resource_view(nodename)

    def _update(self, context: Any, compute_node: Any, startup: bool = False) -> None:
        self._project(compute_node.hypervisor_hostname)
        super()._update(context, compute_node, startup)

    def _project(self, nodename: str) -> None:
        """Give back the devices that Nova has freed, and set the used quantities of Nova's row."""
        if node := self.nodes.get(nodename):
            if self._holds is None and self._has_devices(node):
                self._rows.settle(node)
            compute_node = self.compute_nodes[nodename]
            project(node, compute_node, self.stats[nodename])
            compute_node.pci_device_pools = pools(self.pci_tracker)

    # -- devices --------------------------------------------------------------------------------

    @property
    def _rows(self) -> DeviceRows:
        return DeviceRows(self.pci_tracker)

    def _has_devices(self, node: NovaNode) -> bool:
        """Whether Nova tracks the devices of a node: it does for the first one."""
        return bool(self.pci_tracker) and node is self._device_node()

    def _device_node(self) -> NovaNode | None:
        """Return the node whose devices Nova tracks; None: it is gone."""
        names = (
            name for name, each in self.compute_nodes.items() if each.id == self.pci_tracker.node_id
        )
        return self.nodes.get(next(names, ""))

    def _device_requests(self, node: NovaNode, nova: Any) -> DeviceRequests:
        classes = self._rows.classes(node.state.devices) if self.pci_tracker else {}
        return device_requests(nova, classes)

    # -- what an instance has -------------------------------------------------------------------

    def _hold(
        self, instance: Any, flavor: Any = None, migration: Any = None, prefix: Any = None
    ) -> Hold:
        """:param flavor: of the hold; None: that of the instance."""
        return Hold(
            instance=instance,
            flavor=flavor or instance.flavor,
            numa_topology=of_context(instance, "numa_topology", prefix)
            if prefix
            else instance.numa_topology,
            migration=migration,
            prefix=prefix,
            is_volume_backed=self._is_volume_backed(instance),
        )

    def _is_volume_backed(self, instance: Any) -> bool:
        self._get_usage_dict(instance, instance)  # it notes that
        return bool(self.is_bfv[instance.uuid])

    def _members(self, allocations: Any, given: Claim) -> Any:
        """Return the ResourceList of what a claim was given, or None."""
        if not given.resources:
            return self._claim_resources(allocations)
        names = {each.identifier for each in given.resources}
        found = [each for each in self._resources() if each.identifier in names]
        self._add_assigned_resources(found)
        return objects.ResourceList(objects=found)
