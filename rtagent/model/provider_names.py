"""Names and uuids of this node's resource providers in Placement.

The root provider is the host: its uuid is the node's, its name is the hypervisor hostname. The name
of a child is the root's name, an underscore and a suffix that stands for a device.
"""

import re
from functools import lru_cache
from uuid import UUID, uuid5

from rtagent.model.node import Node
from rtagent.model.policy import PlacementPolicy

#: Before the name of a device in libvirt, which has underscores between the parts of its address.
_NODE_DEVICE = "pci_"


def device_suffix(address: str) -> str:
    """Return the suffix of the provider of a PCI device, or of a physical function's virtual ones.

    :param address: the device's, or the physical function's.
    """
    return address.upper()


def mdev_suffix(address: str) -> str:
    """Return the suffix of the provider of the mediated devices of a device: as in Nova, the name
    of the device in libvirt.
    """
    return _NODE_DEVICE + re.sub("[:.]", "_", address)


def provider_name(node: Node, suffix: str) -> str:
    """Return the name of a child provider. :param suffix: "" is the root."""
    return f"{node.hypervisor_hostname}_{suffix}" if suffix else node.hypervisor_hostname


def provider_uuid(node: Node, policy: PlacementPolicy, suffix: str) -> str:
    """Return the uuid of a provider. :param suffix: "" is the root.

    The uuid of a child is derived from its suffix, so that a device has the same uuid after a
    restart without stored data. A child that another publisher had made keeps its uuid.
    """
    if not suffix:
        return node.uuid
    return policy.adopted.get(suffix) or _child_uuid(node.uuid, suffix)


@lru_cache(maxsize=4096)  # a claim that follows an allocation needs those of all devices
def _child_uuid(node_uuid: str, suffix: str) -> str:
    return str(uuid5(UUID(node_uuid), suffix))
