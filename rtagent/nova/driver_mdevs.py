"""DriverMdevs: the claims have the mediated devices (virtual GPUs) that Nova's driver chooses.

Nova's driver chooses when it makes a domain, long after the claim, and what it has chosen is in no
record until the domain is defined. So two builds at the same time can get the same device. Here the
choice and its record in the claim are one step, of which there is one at a time:

* The driver's reservations, ``instance_claimed_mdevs``, are those of the claims. So the driver
  chooses nothing that a claim has, and finds the devices of a guest whose domain is lost.
* ``_allocate_mdevs`` records what was chosen before its caller makes a domain of it. If another
  owner has it, that fails as a claim that is refused.

If the process ends before the record, a device that was just created is free, as it is with Nova;
if it ends after it, the claim keeps the device for the server, which has no domain yet. For the
live migration of a server without NUMA cells Nova makes no claim: until an audit has made one, its
devices are reserved in memory, as they are with Nova.

The choice stays the driver's because its rules, which types are enabled where and what is created,
are also those of its inventory in Placement; and because it is asked with an allocation, and not
with a server, so that it could not look up what a claim has chosen. `ConsumerAllocations` tell
whose they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from nova import exception, utils
from nova.compute import resource_tracker
from oslo_log import log

from rtagent.errors import RequestError, RtAgentError
from rtagent.model.address import BadAddress, parse_address
from rtagent.model.claim import EVACUATION, Claim
from rtagent.model.device import Mdev
from rtagent.nova.host_mdevs import HostMdevs, MdevParent, claim_of_guest, mdevs_by_holder
from rtagent.nova.nova_node import NovaNode
from rtagent.pci.assigned_resources import claimed_mdevs

LOG = log.getLogger(__name__)
SEMAPHORE = resource_tracker.COMPUTE_RESOURCE_SEMAPHORE
#: Before the address in libvirt's name of a PCI device.
_PREFIX = "pci_"


class ConsumerAllocations(dict[str, Any]):
    """Allocations of Placement, by provider. :ivar consumer: whose they are: a server's uuid."""

    def __init__(self, allocations: Any, consumer: str) -> None:
        super().__init__(allocations)
        self.consumer = consumer


class ClaimedMdevs(MutableMapping[str, list[str]]):
    """What Nova's driver regards as reserved, by instance: what the claims have, and what it has
    reserved itself for live migrations.

    :ivar reserved: of these, what no claim has yet.
    """

    def __init__(
        self, claimed: Callable[[], dict[str, list[str]]], end: Callable[[str], None]
    ) -> None:
        """:param claimed: reads the claims. :param end: called after a live migration."""
        self.reserved: dict[str, list[str]] = {}
        self._claimed, self._end = claimed, end

    def __getitem__(self, uuid: str) -> list[str]:
        return self._all()[uuid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __setitem__(self, uuid: str, mdevs: list[str]) -> None:
        held = self._claimed().get(uuid, ())
        self.reserved[uuid] = [mdev for mdev in mdevs if mdev not in held]

    def __delitem__(self, uuid: str) -> None:
        self.reserved.pop(uuid, None)
        self._end(uuid)

    def _all(self) -> dict[str, list[str]]:
        claimed = self._claimed()
        for uuid, mdevs in tuple(self.reserved.items()):
            claimed[uuid] = list(dict.fromkeys((*claimed.get(uuid, ()), *mdevs)))
        return claimed


class DriverMdevs:
    """Of a driver of libvirt; with another one it does nothing."""

    def __init__(self, driver: Any, client: Any, nodes: Callable[[], Iterable[NovaNode]]) -> None:
        """Let the driver's choices be recorded.

        :param client: of Placement, from which the compute manager and the driver get allocations.
        :param nodes: returns those of the driver.
        """
        self._driver, self._nodes = driver, nodes
        self._types = getattr(driver, "supported_vgpu_types", None)
        if self._types:
            self._choose = driver._allocate_mdevs
            driver._allocate_mdevs = self._allocate
            driver.instance_claimed_mdevs = ClaimedMdevs(self._claimed, self._end)
            _name_consumers(client)

    def host(self) -> HostMdevs:
        """Read what the host has now."""
        if not self._types:
            return HostMdevs()
        parents = tuple(self._parents())
        types = {parent.address: parent.type for parent in parents}
        mdevs = (
            Mdev(uuid=each["uuid"], type=each["type"], parent_addr=_address(each["parent"]) or "")
            for each in self._driver._get_mediated_devices(self._types)
        )
        return HostMdevs(
            parents=parents,
            mdevs=tuple(each for each in mdevs if types.get(each.parent_addr) == each.type),
        )

    def _parents(self) -> Iterator[MdevParent]:
        """Yield the devices with an inventory. Those that are no PCI devices are left out: claims
        name a mediated device by the address of its parent.
        """
        driver = self._driver
        for name, inventory in driver._get_gpu_inventories().items():
            if address := _address(name):
                yield MdevParent(
                    address=address,
                    type=driver._get_vgpu_type_per_pgpu(name),
                    resource_class=driver._get_resource_class_for_device(name),
                    total=inventory["total"],
                )

    def adopt_running(self, node: NovaNode) -> None:
        """Record the mediated devices that claims lack: those of domains, as at the first start,
        and those that are reserved for live migrations.
        """
        by_owner: dict[str, list[str]] = defaultdict(list)
        for uuid, owner_id in self._assigned().items():
            by_owner[owner_id].append(uuid)
        for owner_id, uuids in by_owner.items():
            claim = claim_of_guest(node.mains(owner_id))
            held = {uuid for each in node.mains(owner_id) for uuid in claimed_mdevs(each)}
            missing = list(node.mdevs.resources(uuid for uuid in uuids if uuid not in held))
            if claim is None or not missing:
                continue
            try:
                node.adopt_mdevs(claim, (*claimed_mdevs(claim).values(), *missing))
                self._driver.instance_claimed_mdevs.reserved.pop(owner_id, None)
            except RequestError as error:
                LOG.error("Mediated devices of instance %s are not recorded: %s", owner_id, error)

    def _assigned(self) -> Mapping[str, str]:
        """Return the owner of each mediated device of a domain or a reservation."""
        try:
            owners: Mapping[str, str] = (
                self._driver._get_all_assigned_mediated_devices() if self._types else {}
            )
        except Exception as error:  # libvirt's, if a domain ends while it is read
            LOG.warning("The next audit reads the mediated devices of domains: %s", error)
            return {}
        return owners

    # -- what the driver calls ------------------------------------------------------------------

    def _claimed(self) -> dict[str, list[str]]:
        return {
            holder: uuids
            for node in self._nodes()
            for owner_id in node.state.owners
            for holder, uuids in mdevs_by_holder(node.mains(owner_id))
        }

    @utils.synchronized("rtagent_mdevs")
    def _allocate(self, allocations: Any) -> list[str]:
        """Choose mediated devices for a server whose domain is to be made, and record them.

        :raises exception.ComputeResourcesUnavailable: there are none, or another owner has one.
        """
        owner_id = getattr(allocations, "consumer", "")
        self._record(owner_id, [])  # of a rebuild: the domain that had them is gone
        # Nova 31 returns None for a server without virtual GPUs.
        chosen: list[str] = self._choose(self._of_this_host(owner_id, allocations)) or []
        self._record(owner_id, chosen)
        return chosen

    def _of_this_host(self, owner_id: str, allocations: Any) -> Any:
        """Return allocations without those that an evacuated server has at its old host, because of
        which Nova's driver would refuse all of them.
        """
        _, claim = self._claim(owner_id)
        if claim is None or claim.kind != EVACUATION:
            return allocations
        tree = self._driver.provider_tree
        return {uuid: each for uuid, each in allocations.items() if tree.exists(uuid)}

    def _end(self, owner_id: str) -> None:
        """Give back what was reserved for a guest that a live migration has not brought here."""
        if owner_id not in self._driver.list_instance_uuids():
            with suppress(exception.ComputeResourcesUnavailable):  # it is logged
                self._record(owner_id, [])

    def _record(self, owner_id: str, uuids: list[str]) -> None:
        try:
            self._record_all(owner_id, uuids)
        except RtAgentError as error:
            LOG.info("Failed to claim mediated devices for instance %s: %s", owner_id, error)
            raise exception.ComputeResourcesUnavailable(reason=error.message) from error

    @utils.synchronized(SEMAPHORE, fair=True)
    def _record_all(self, owner_id: str, uuids: list[str]) -> None:
        node, claim = self._claim(owner_id)
        if node is None or claim is None:
            # Nova claims nothing for a live migration of a server without NUMA cells.
            if uuids:
                self._driver.instance_claimed_mdevs[owner_id] = uuids
        elif set(claimed_mdevs(claim)) != set(uuids):
            node.set_mdevs(self.host())
            node.adopt_mdevs(claim, node.mdevs.resources(uuids))

    def _claim(self, owner_id: str) -> tuple[NovaNode, Claim] | tuple[None, None]:
        """Return the claim that the guest's devices belong to, and its node."""
        for node in self._nodes():
            if claim := claim_of_guest(node.mains(owner_id)):
                return node, claim
        return None, None


def _address(name: str) -> str | None:
    """Return the PCI address in libvirt's name of a device; None: it is no PCI device."""
    try:
        return str(parse_address("{}:{}:{}.{}".format(*name.removeprefix(_PREFIX).split("_"))))
    except (BadAddress, IndexError):
        return None


def _name_consumers(client: Any) -> None:
    """Let a client of Placement return allocations that name their consumer."""
    read = client.get_allocs_for_consumer

    def named(context: Any, consumer: str) -> Any:
        answer = read(context, consumer)
        return {**answer, "allocations": ConsumerAllocations(answer["allocations"], consumer)}

    client.get_allocs_for_consumer = named
