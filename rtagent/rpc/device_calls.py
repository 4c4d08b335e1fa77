"""The client's part for devices that come to a guest and go, and for those kept back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oslo_context.context import RequestContext

from rtagent.rpc.calls import Calls


class DeviceCalls(Calls):
    """Documents may be plain mappings or the values of `rtagent.model`."""

    def claim_pci_devices(
        self,
        context: RequestContext,
        instance: Any,
        pci_requests: Sequence[Any],
        *,
        node: str | None = None,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Hold devices to be added to a guest that is here; the claim, of kind ``attach``.

        :raises ComputeResourcesUnavailable: with every reason. :raises ClaimNotFound: the instance
            has no claim here.
        """
        return self._change(
            context,
            "claim_pci_devices",
            operation_id,
            timeout,
            instance=instance,
            pci_requests=pci_requests,
            node=node,
        )

    def allocate_pci_devices_for_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        claim_uuid: str,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """They are about to be given to the guest; the claim.

        :raises ClaimExpired: they must not be.
        """
        return self._change(
            context,
            "allocate_pci_devices_for_instance",
            operation_id,
            timeout,
            instance_uuid=instance_uuid,
            claim_uuid=claim_uuid,
        )

    def unclaim_pci_devices(
        self,
        context: RequestContext,
        instance_uuid: str,
        claim_uuid: str,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Give up a claim whose devices were not given to the guest."""
        self._change(
            context,
            "unclaim_pci_devices",
            operation_id,
            timeout,
            instance_uuid=instance_uuid,
            claim_uuid=claim_uuid,
        )

    def free_pci_device_claims_for_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        claim_uuid: str | None = None,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Give up every such claim of the instance, or one."""
        self._change(
            context,
            "free_pci_device_claims_for_instance",
            operation_id,
            timeout,
            instance_uuid=instance_uuid,
            claim_uuid=claim_uuid,
        )

    def free_pci_device_allocations_for_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        claim_uuid: str | None = None,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """The guest has given back what was added to it, or what one claim added."""
        self._change(
            context,
            "free_pci_device_allocations_for_instance",
            operation_id,
            timeout,
            instance_uuid=instance_uuid,
            claim_uuid=claim_uuid,
        )

    def quarantine_pci_device(
        self,
        context: RequestContext,
        address: str,
        reason: str,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Have nobody get the device from now on."""
        self._change(
            context, "quarantine_pci_device", operation_id, timeout, address=address, reason=reason
        )

    def clear_pci_device(
        self,
        context: RequestContext,
        address: str,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Have it given out again."""
        self._change(context, "clear_pci_device", operation_id, timeout, address=address)
