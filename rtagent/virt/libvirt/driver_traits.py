"""Capability traits that follow from the kind and the version of the hypervisor. Pure.

They are those of Nova's libvirt driver. The names of models that no document of libvirt lists are
known by version, as the driver knows them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import os_traits

from rtagent.model.base import Value

#: What those who act on claims (nova-compute, or another caller) can do for a guest of libvirt. The
#: hypervisor does not know it; ``[placement] withheld_traits`` names what does not hold.
_OF_CALLERS = (
    os_traits.COMPUTE_ACCELERATORS,
    os_traits.COMPUTE_DEVICE_TAGGING,
    os_traits.COMPUTE_IMAGE_TYPE_AKI,
    os_traits.COMPUTE_IMAGE_TYPE_AMI,
    os_traits.COMPUTE_IMAGE_TYPE_ARI,
    os_traits.COMPUTE_IMAGE_TYPE_ISO,
    os_traits.COMPUTE_IMAGE_TYPE_QCOW2,
    os_traits.COMPUTE_IMAGE_TYPE_RAW,
    os_traits.COMPUTE_NET_ATTACH_INTERFACE,
    os_traits.COMPUTE_NET_ATTACH_INTERFACE_WITH_TAG,
    os_traits.COMPUTE_RESCUE_BFV,
    os_traits.COMPUTE_TRUSTED_CERTS,
    os_traits.COMPUTE_VOLUME_ATTACH_WITH_TAG,
    os_traits.COMPUTE_VOLUME_EXTEND,
    os_traits.COMPUTE_VOLUME_MULTI_ATTACH,
)

#: What this agent itself does for its claims.
_OF_THE_AGENT = (os_traits.COMPUTE_SOCKET_PCI_NUMA_AFFINITY,)

#: QEMU's traits: the name, and the least versions of libvirt and QEMU (0: any).
_OF_QEMU = (
    ("COMPUTE_ADDRESS_SPACE_EMULATED", (8, 7, 0), (2, 7, 0)),
    ("COMPUTE_ADDRESS_SPACE_PASSTHROUGH", (8, 7, 0), (2, 7, 0)),
    ("COMPUTE_NET_VIF_MODEL_E1000", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_NET_VIF_MODEL_E1000E", (0, 0, 0), (2, 6, 0)),
    ("COMPUTE_NET_VIF_MODEL_IGB", (9, 3, 0), (8, 0, 0)),
    ("COMPUTE_NET_VIF_MODEL_NE2K_PCI", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_NET_VIF_MODEL_PCNET", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_NET_VIF_MODEL_RTL8139", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_NET_VIF_MODEL_SPAPR_VLAN", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_NET_VIF_MODEL_VIRTIO", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_NET_VIF_MODEL_VMXNET3", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_NET_VIRTIO_PACKED", (6, 3, 0), (4, 2, 0)),
    ("COMPUTE_SECURITY_STATELESS_FIRMWARE", (8, 6, 0), (0, 0, 0)),
    ("COMPUTE_SOUND_MODEL_AC97", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_SOUND_MODEL_ES1370", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_SOUND_MODEL_ICH6", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_SOUND_MODEL_ICH9", (1, 1, 3), (0, 0, 0)),
    ("COMPUTE_SOUND_MODEL_PCSPK", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_SOUND_MODEL_SB16", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_SOUND_MODEL_USB", (1, 2, 7), (0, 0, 0)),
    ("COMPUTE_SOUND_MODEL_VIRTIO", (10, 4, 0), (8, 2, 0)),
    ("COMPUTE_USB_MODEL_NEC_XHCI", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_USB_MODEL_QEMU_XHCI", (3, 9, 0), (2, 9, 0)),
    ("COMPUTE_VIOMMU_MODEL_AUTO", (0, 0, 0), (0, 0, 0)),
    ("COMPUTE_VIOMMU_MODEL_VIRTIO", (8, 3, 0), (0, 0, 0)),
)

#: The vIOMMU of the machine types of an architecture.
_VIOMMU = {
    "aarch64": os_traits.COMPUTE_VIOMMU_MODEL_SMMUV3,
    "x86_64": os_traits.COMPUTE_VIOMMU_MODEL_INTEL,
}

_QEMU = "QEMU"


class Versions(Value, frozen=True, kw_only=True):
    """Versions as libvirt encodes them: 1,000,000 * major + 1,000 * minor + release."""

    libvirt: int
    hypervisor: int


def driver_traits(
    hypervisor_type: str, versions: Versions, arches: Collection[str]
) -> frozenset[str]:
    """Return the traits of the driver on a hypervisor.

    :param arches: of its guests.
    """
    return frozenset(_names(hypervisor_type, versions, arches))


def _names(hypervisor_type: str, versions: Versions, arches: Collection[str]) -> Iterator[str]:
    yield from _OF_CALLERS
    yield from _OF_THE_AGENT
    if hypervisor_type == _QEMU:
        for trait, libvirt, hypervisor in _OF_QEMU:
            if versions.libvirt >= _encoded(libvirt) and versions.hypervisor >= _encoded(
                hypervisor
            ):
                yield trait
        for arch, trait in _VIOMMU.items():
            if arch in arches:
                yield trait


def _encoded(version: tuple[int, int, int]) -> int:
    major, minor, release = version
    return 1_000_000 * major + 1_000 * minor + release
