"""DeviceRows: Nova's rows of PCI devices, as a projection of the claims of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nova import objects
from nova.objects import fields
from oslo_log import log

from rtagent.errors import RequestError
from rtagent.model.claim import Claim
from rtagent.model.device import VF_TYPES, AssignedDevice, PciDevices
from rtagent.model.guest import AdoptRequest
from rtagent.model.request import Instance
from rtagent.nova import guests
from rtagent.nova.guests import request_id
from rtagent.nova.nova_node import NovaNode, awaits_devices

LOG = log.getLogger(__name__)

_HELD = frozenset({fields.PciDeviceStatus.CLAIMED, fields.PciDeviceStatus.ALLOCATED})


class DeviceRows:
    """The rows of Nova's PciDevTracker. A row that Nova has freed gives the device back."""

    def __init__(self, pci_tracker: Any) -> None:
        self._tracker = pci_tracker

    @property
    def providers(self) -> dict[str, str]:
        """The uuid of Placement's provider of devices, by the address that it is named by."""
        return {
            _provider_address(row): row.extra_info["rp_uuid"]
            for row in self._tracker.pci_devs
            if row.extra_info.get("rp_uuid")
        }

    def classes(self, devices: PciDevices) -> dict[str, str]:
        """Return the resource class of each of these providers, by uuid.

        :param devices: of the node. Those of one provider have the same class.
        """
        return {
            row.extra_info["rp_uuid"]: devices[row.address].resource_class
            for row in self._tracker.pci_devs
            if row.extra_info.get("rp_uuid") and row.address in devices
        }

    def take(
        self, owner_id: str, requests: Iterable[Any], given: Sequence[AssignedDevice]
    ) -> list[Any]:
        """Mark the rows of devices that a claim has been given, and return them."""
        ids = {request_id(request): request.request_id for request in requests}
        rows = self._by_address
        taken = [rows[device.address] for device in given]
        for row, device in zip(taken, given, strict=True):
            self._remove_from_pools(row)
            row.request_id = ids.get(device.request_id, device.request_id)
        for row in taken:
            row.claim(owner_id)
        if taken:
            self._tracker.claims[owner_id] = [*self._tracker.claims.get(owner_id, ()), *taken]
        return taken

    def repair(self, node: NovaNode, allocated: Mapping[str, Any]) -> None:
        """Mark the rows of devices that claims have and whose rows are free: the process ended
        between the claim and the row.

        :param allocated: the instances of this host, by uuid. Their devices are in use.
        """
        rows = self._by_address
        for claim in () if not rows else tuple(node.state.claims.values()):
            free = [
                device
                for device in claim.pci
                if device.address in rows and rows[device.address].is_available()
            ]
            if not free or awaits_devices(claim) or claim.owner_id not in allocated:
                continue
            LOG.info(
                "Rows of PCI devices are put right: instance %s has %s",
                claim.owner_id,
                ", ".join(device.address for device in free),
            )
            self.take(claim.owner_id, (), free)
            self._tracker.allocate_instance(allocated[claim.owner_id])

    def give_back_awaited(self, node: NovaNode) -> None:
        """Give back the devices that live migrations have been given and whose rows are free: the
        process that was to mark the rows has ended.
        """
        rows = self._by_address
        for claim in filter(awaits_devices, tuple(node.state.claims.values())):
            addresses = [device.address for device in claim.pci]
            if free := [each for each in addresses if not _is_of(claim, rows.get(each))]:
                node.give_back(claim, free)

    def settle(self, node: NovaNode) -> None:
        """Give back what Nova has freed, and adopt what its rows say is held."""
        held = {row.address: row for row in self._tracker.pci_devs if row.status in _HELD}
        seen: set[str] = set()
        for claim in tuple(node.state.claims.values()):
            addresses = [device.address for device in claim.pci]
            seen.update(addresses)
            if gone := [each for each in addresses if not _has(claim, held.get(each))]:
                node.give_back(claim, gone)
                seen.difference_update(gone)
        known = node.state.devices
        for address, row in held.items():
            if address not in seen and address in known:
                _adopt(node, row)

    def _remove_from_pools(self, row: Any) -> None:
        stats = self._tracker.stats
        stats.remove_device(row)
        # A physical function and its virtual ones are not available together.
        stats._handle_device_dependents(row)

    @property
    def _by_address(self) -> dict[str, Any]:
        return {row.address: row for row in self._tracker.pci_devs}


def _has(claim: Claim, row: Any) -> bool:
    """Whether a claim has a device by Nova's row too, or will have it."""
    return awaits_devices(claim) or _is_of(claim, row)


def _is_of(claim: Claim, row: Any) -> bool:
    return row is not None and bool(row.instance_uuid == claim.owner_id)


def _provider_address(row: Any) -> str:
    if row.dev_type in VF_TYPES and row.parent_addr:
        return str(row.parent_addr)
    return str(row.address)


def _adopt(node: NovaNode, row: Any) -> None:
    owner_id = row.instance_uuid
    mains = node.mains(owner_id)
    device = AssignedDevice(
        address=row.address,
        vendor_id=row.vendor_id,
        product_id=row.product_id,
        dev_type=row.dev_type,
        request_id=row.request_id or row.address,
        numa_node=row.numa_node,
        parent_addr=row.parent_addr,
    )
    instance = Instance(uuid=owner_id, flavor=mains[0].flavor if mains else guests.NO_FLAVOR)
    try:
        node.adopt(AdoptRequest(instance=instance, devices=(device,), attached=True))
    except RequestError as error:
        LOG.error("PCI device %s of instance %s: %s", row.address, owner_id, error)


def pools(pci_tracker: Any) -> Any:
    """Return the PciDevicePoolList of a PciDevTracker, or of None."""
    return pci_tracker.stats.to_device_pools_obj() if pci_tracker else objects.PciDevicePoolList()
