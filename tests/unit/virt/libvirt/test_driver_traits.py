"""Capability traits by the kind and the version of the hypervisor."""

import os_traits
import pytest

from rtagent.virt.libvirt.driver_traits import Versions, driver_traits

#: The traits of these kinds that nova-compute reports on x86-64 with libvirt 8.0 and QEMU 6.2.
NOVA = {
    "COMPUTE_ACCELERATORS",
    "COMPUTE_DEVICE_TAGGING",
    "COMPUTE_IMAGE_TYPE_AKI",
    "COMPUTE_IMAGE_TYPE_AMI",
    "COMPUTE_IMAGE_TYPE_ARI",
    "COMPUTE_IMAGE_TYPE_ISO",
    "COMPUTE_IMAGE_TYPE_QCOW2",
    "COMPUTE_IMAGE_TYPE_RAW",
    "COMPUTE_NET_ATTACH_INTERFACE",
    "COMPUTE_NET_ATTACH_INTERFACE_WITH_TAG",
    "COMPUTE_NET_VIF_MODEL_E1000",
    "COMPUTE_NET_VIF_MODEL_E1000E",
    "COMPUTE_NET_VIF_MODEL_NE2K_PCI",
    "COMPUTE_NET_VIF_MODEL_PCNET",
    "COMPUTE_NET_VIF_MODEL_RTL8139",
    "COMPUTE_NET_VIF_MODEL_SPAPR_VLAN",
    "COMPUTE_NET_VIF_MODEL_VIRTIO",
    "COMPUTE_NET_VIF_MODEL_VMXNET3",
    "COMPUTE_NET_VIRTIO_PACKED",
    "COMPUTE_RESCUE_BFV",
    "COMPUTE_SOCKET_PCI_NUMA_AFFINITY",
    "COMPUTE_SOUND_MODEL_AC97",
    "COMPUTE_SOUND_MODEL_ES1370",
    "COMPUTE_SOUND_MODEL_ICH6",
    "COMPUTE_SOUND_MODEL_ICH9",
    "COMPUTE_SOUND_MODEL_PCSPK",
    "COMPUTE_SOUND_MODEL_SB16",
    "COMPUTE_SOUND_MODEL_USB",
    "COMPUTE_TRUSTED_CERTS",
    "COMPUTE_VIOMMU_MODEL_AUTO",
    "COMPUTE_VIOMMU_MODEL_INTEL",
    "COMPUTE_VOLUME_ATTACH_WITH_TAG",
    "COMPUTE_VOLUME_EXTEND",
    "COMPUTE_VOLUME_MULTI_ATTACH",
}
#: Controllers that later releases of Nova report, too.
USB = {"COMPUTE_USB_MODEL_NEC_XHCI", "COMPUTE_USB_MODEL_QEMU_XHCI"}
OLD, NEW = (8_000_000, 6_002_000), (10_010_000, 9_001_000)


def traits(versions=NEW, kind="QEMU", arches=("x86_64", "i686")):
    libvirt, hypervisor = versions
    return driver_traits(kind, Versions(libvirt=libvirt, hypervisor=hypervisor), arches)


def test_traits_are_those_of_nova():
    assert traits(OLD) == NOVA | USB


def test_newer_versions_add_traits():
    assert traits(NEW) - traits(OLD) == {
        "COMPUTE_ADDRESS_SPACE_EMULATED",
        "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
        "COMPUTE_NET_VIF_MODEL_IGB",
        "COMPUTE_SECURITY_STATELESS_FIRMWARE",
        "COMPUTE_SOUND_MODEL_VIRTIO",
        "COMPUTE_VIOMMU_MODEL_VIRTIO",
    }


@pytest.mark.parametrize(
    ("trait", "libvirt", "hypervisor"),
    [
        ("COMPUTE_ADDRESS_SPACE_EMULATED", 8_007_000, 2_007_000),
        ("COMPUTE_NET_VIF_MODEL_IGB", 9_003_000, 8_000_000),
        ("COMPUTE_NET_VIRTIO_PACKED", 6_003_000, 4_002_000),
        ("COMPUTE_SOUND_MODEL_VIRTIO", 10_004_000, 8_002_000),
    ],
)
def test_both_versions_must_be_new_enough(trait, libvirt, hypervisor):
    assert trait in traits((libvirt, hypervisor))
    assert trait not in traits((libvirt - 1, hypervisor))
    assert trait not in traits((libvirt, hypervisor - 1))


def test_virtual_iommu_depends_on_the_architectures_of_guests():
    smmu, intel = "COMPUTE_VIOMMU_MODEL_SMMUV3", "COMPUTE_VIOMMU_MODEL_INTEL"
    assert {smmu, intel}.isdisjoint(traits(arches=("s390x",)))
    assert {smmu, intel} & traits(arches=("aarch64",)) == {smmu}
    assert {smmu, intel} <= traits(arches=("aarch64", "x86_64"))


def test_other_hypervisors_have_the_traits_of_those_who_act_on_claims():
    shown = traits(kind="TEST")
    assert {"COMPUTE_VOLUME_EXTEND", "COMPUTE_IMAGE_TYPE_QCOW2"} <= shown <= NOVA
    assert not any("MODEL" in trait for trait in shown)


@pytest.mark.parametrize("trait", ["COMPUTE_SAME_HOST_COLD_MIGRATE", "COMPUTE_IMAGE_TYPE_VMDK"])
def test_what_no_libvirt_host_of_nova_has_is_no_trait(trait):
    assert trait not in traits()


def test_every_name_is_known_to_os_traits():
    assert traits(arches=("aarch64", "x86_64")) <= set(os_traits.get_traits())
