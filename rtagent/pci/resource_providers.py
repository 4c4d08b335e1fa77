"""The resource providers of this node's devices and assigned resources, by uuid."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rtagent.model.device import PciDevices
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.policy import Policy
from rtagent.model.provider_names import device_suffix, mdev_suffix, provider_uuid
from rtagent.pci.placement_reporting import provider_addresses


def provider_of_resource(state: NodeState, parent_addr: str | None) -> str:
    """Return the uuid of the provider of the assigned resources of a device.

    :param parent_addr: the device's PCI address; None or "": the host's own resources.
    """
    suffix = mdev_suffix(parent_addr) if parent_addr else ""
    return provider_uuid(state.node, state.policy.placement, suffix)


def provider_of_device(state: NodeState, address: str) -> str | None:
    """Return the uuid of the provider of a PCI device; None: it is not reported to Placement."""
    return device_providers(state)(address)


def device_providers(state: NodeState) -> Callable[[str], str | None]:
    """Return the function that returns the uuid of the provider of a PCI device, by its address.

    The function does not refer to the state, so views of the state may have it.
    """
    return partial(_provider, state.node, state.policy, state.devices)


def _provider(node: Node, policy: Policy, devices: PciDevices, address: str) -> str | None:
    if not policy.pci.report_in_placement:
        return None
    reported = provider_addresses(devices).get(address)
    if reported is None:
        return None
    return provider_uuid(node, policy.placement, device_suffix(reported))
