"""Capability traits."""

import os_traits
import pytest

from rtagent.virt.libvirt.capabilities import parse_capabilities
from rtagent.virt.libvirt.document import parse
from rtagent.virt.libvirt.traits import domain_traits, driver_traits, host_traits
from tests.data import read

X86 = {"COMPUTE_ARCH_X86_64", "HW_ARCH_X86_64"}
HOSTS = ("one-socket", "two-sockets", "aarch64")


def host(name):
    return parse_capabilities(read(f"libvirt/capabilities-{name}.xml"))


def domain(name):
    return domain_traits(parse(read(f"libvirt/domain-capabilities-{name}.xml")))


@pytest.mark.parametrize("name", HOSTS)
def test_every_name_is_known_to_os_traits(name):
    every = host_traits(host(name), host(name).cpu_info["features"]) | domain("pc") | domain("q35")
    assert every <= set(os_traits.get_traits())


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ("avx512-vpopcntdq", "AVX512VPOPCNTDQ"),
        ("sse4.2", "SSE42"),
        ("aes", "AESNI"),
        ("vmx", "VMX INTEL_VMX"),
        ("svm", "SVM AMD_SVM"),
        ("rdrand", ""),
        # AVX512VAES and its like say more than the feature does: CPUs without AVX-512 have it.
        ("vaes", ""),
        ("avx512f vaes gfni vpclmulqdq", "AVX512F AVX512GFNI AVX512VAES AVX512VPCLMULQDQ"),
    ],
)
def test_a_cpu_feature_becomes_its_trait(features, expected):
    own = {f"HW_CPU_X86_{name}" for name in expected.split()}
    assert host_traits(host("one-socket"), features.split()) == X86 | own


def test_features_of_another_arch_have_its_own_traits():
    arm = {"COMPUTE_ARCH_AARCH64", "HW_ARCH_AARCH64", "HW_CPU_AARCH64_AES", "HW_CPU_AARCH64_SVE"}
    assert host_traits(host("aarch64"), ["aes", "sve"]) == arm


def test_hyperthreading():
    assert "HW_CPU_HYPERTHREADING" in host_traits(host("two-sockets"), ())
    assert "HW_CPU_HYPERTHREADING" not in host_traits(host("one-socket"), ())


def test_traits_of_domain_capabilities():
    pc, q35 = domain("pc"), domain("q35")

    assert {"COMPUTE_STORAGE_BUS_VIRTIO", "COMPUTE_GRAPHICS_MODEL_QXL"} <= pc & q35
    assert pc - q35 == {"COMPUTE_STORAGE_BUS_IDE"}
    assert "COMPUTE_MEM_BACKING_FILE" not in q35, "it is about the host's configuration"
    assert q35 - pc == {
        "COMPUTE_FIRMWARE_BIOS",
        "COMPUTE_FIRMWARE_UEFI",
        "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
        "COMPUTE_SECURITY_TPM_1_2",
        "COMPUTE_SECURITY_TPM_2_0",
        "COMPUTE_SECURITY_TPM_CRB",
        "COMPUTE_SECURITY_TPM_TIS",
        *TPM_SECRETS,
    }


TPM = """<domainCapabilities><devices><tpm supported='yes'>
  <enum name='backendModel'><value>{backend}</value></enum>{more}
</tpm></devices></domainCapabilities>"""
TPM_VERSIONS = {"COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_2_0"}
#: Nova 34 requires one of them for each guest with a TPM.
TPM_SECRETS = {
    f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{who}" for who in ("USER", "HOST", "DEPLOYMENT")
}


@pytest.mark.parametrize(
    ("backend", "more", "expected"),
    [
        ("emulator", "", TPM_VERSIONS | TPM_SECRETS),  # libvirt 8.5 and older
        ("emulator", "<enum name='backendVersion'/>", TPM_SECRETS),
        (
            "emulator",
            "<enum name='backendVersion'><value>2.0</value></enum>",
            {"COMPUTE_SECURITY_TPM_2_0"} | TPM_SECRETS,
        ),
        ("passthrough", "", set()),
    ],
)
def test_an_emulated_tpm_has_the_listed_versions_or_else_both(backend, more, expected):
    assert domain_traits(parse(TPM.format(backend=backend, more=more))) == expected


#: The traits of these kinds that nova-compute reports on x86-64 with libvirt 8.0 and QEMU 6.2.
NOVA_NAMES = """
    ACCELERATORS DEVICE_TAGGING IMAGE_TYPE_AKI IMAGE_TYPE_AMI IMAGE_TYPE_ARI IMAGE_TYPE_ISO
    IMAGE_TYPE_QCOW2 IMAGE_TYPE_RAW NET_ATTACH_INTERFACE NET_ATTACH_INTERFACE_WITH_TAG
    NET_VIF_MODEL_E1000 NET_VIF_MODEL_E1000E NET_VIF_MODEL_NE2K_PCI NET_VIF_MODEL_PCNET
    NET_VIF_MODEL_RTL8139 NET_VIF_MODEL_SPAPR_VLAN NET_VIF_MODEL_VIRTIO NET_VIF_MODEL_VMXNET3
    NET_VIRTIO_PACKED RESCUE_BFV SOCKET_PCI_NUMA_AFFINITY SOUND_MODEL_AC97 SOUND_MODEL_ES1370
    SOUND_MODEL_ICH6 SOUND_MODEL_ICH9 SOUND_MODEL_PCSPK SOUND_MODEL_SB16 SOUND_MODEL_USB
    TRUSTED_CERTS VIOMMU_MODEL_AUTO VIOMMU_MODEL_INTEL VOLUME_ATTACH_WITH_TAG VOLUME_EXTEND
    VOLUME_MULTI_ATTACH
"""
NOVA = {f"COMPUTE_{name}" for name in NOVA_NAMES.split()}
#: Controllers that later releases of Nova report, too.
USB = {"COMPUTE_USB_MODEL_NEC_XHCI", "COMPUTE_USB_MODEL_QEMU_XHCI"}
OLD, NEW = (8_000_000, 6_002_000), (10_010_000, 9_001_000)


def traits(versions=NEW, kind="QEMU", arches=("x86_64", "i686")):
    libvirt, hypervisor = versions
    return driver_traits(kind, libvirt, hypervisor, arches)


def test_traits_are_those_of_nova():
    assert traits(OLD) == NOVA | USB


def test_newer_versions_add_traits():
    names = """
        ADDRESS_SPACE_EMULATED ADDRESS_SPACE_PASSTHROUGH NET_VIF_MODEL_IGB
        SECURITY_STATELESS_FIRMWARE SOUND_MODEL_VIRTIO VIOMMU_MODEL_VIRTIO
    """
    assert traits(NEW) - traits(OLD) == {f"COMPUTE_{name}" for name in names.split()}


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
