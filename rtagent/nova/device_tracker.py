"""DeviceTracker: devices that are attached to guests, detached, and claimed for live migrations."""

from __future__ import annotations

from typing import Any

from nova import exception, utils
from nova.compute import resource_tracker
from oslo_log import log

from rtagent.errors import RtAgentError
from rtagent.model.claim import Claim
from rtagent.model.request import AttachRequest, Instance
from rtagent.nova import guests
from rtagent.nova.device_requests import DeviceRequests
from rtagent.nova.nova_node import NovaNode, awaits_devices
from rtagent.nova.usage_tracker import UsageTracker

LOG = log.getLogger(__name__)
SEMAPHORE = resource_tracker.COMPUTE_RESOURCE_SEMAPHORE


class DeviceTracker(UsageTracker):
    """The calls for devices alone."""

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
