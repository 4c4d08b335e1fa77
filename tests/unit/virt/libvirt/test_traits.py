"""Capability traits."""

import os_traits
import pytest

from rtagent.virt.libvirt.capabilities import parse_capabilities
from rtagent.virt.libvirt.document import parse
from rtagent.virt.libvirt.traits import domain_traits, host_traits
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
    ("feature", "expected"),
    [
        ("avx512f", {"HW_CPU_X86_AVX512F"}),
        ("avx512-vpopcntdq", {"HW_CPU_X86_AVX512VPOPCNTDQ"}),
        ("sse4.2", {"HW_CPU_X86_SSE42"}),
        ("aes", {"HW_CPU_X86_AESNI"}),
        ("vmx", {"HW_CPU_X86_VMX", "HW_CPU_X86_INTEL_VMX"}),
        ("svm", {"HW_CPU_X86_SVM", "HW_CPU_X86_AMD_SVM"}),
        ("rdrand", set()),
        # AVX512VAES and its like say more than the feature does: CPUs without AVX-512 have it.
        ("vaes", set()),
    ],
)
def test_a_cpu_feature_becomes_its_trait(feature, expected):
    assert host_traits(host("one-socket"), [feature]) == expected | X86


def test_features_of_cpus_with_avx512_are_traits_of_avx512():
    features = ["avx512f", "vaes", "gfni", "vpclmulqdq"]
    assert host_traits(host("one-socket"), features) == X86 | {
        "HW_CPU_X86_AVX512F",
        "HW_CPU_X86_AVX512GFNI",
        "HW_CPU_X86_AVX512VAES",
        "HW_CPU_X86_AVX512VPCLMULQDQ",
    }


def test_features_of_another_arch_have_its_own_traits():
    assert host_traits(host("aarch64"), ["aes", "sve"]) == {
        "COMPUTE_ARCH_AARCH64",
        "HW_ARCH_AARCH64",
        "HW_CPU_AARCH64_AES",
        "HW_CPU_AARCH64_SVE",
    }


def test_hyperthreading():
    assert "HW_CPU_HYPERTHREADING" in host_traits(host("two-sockets"), ())
    assert "HW_CPU_HYPERTHREADING" not in host_traits(host("one-socket"), ())


def test_traits_of_domain_capabilities():
    pc, q35 = domain("pc"), domain("q35")

    assert {"COMPUTE_STORAGE_BUS_VIRTIO", "COMPUTE_GRAPHICS_MODEL_QXL"} <= pc & q35
    assert pc - q35 == {"COMPUTE_STORAGE_BUS_IDE"}
    assert q35 - pc == {
        "COMPUTE_FIRMWARE_BIOS",
        "COMPUTE_FIRMWARE_UEFI",
        "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
        "COMPUTE_SECURITY_TPM_1_2",
        "COMPUTE_SECURITY_TPM_2_0",
        "COMPUTE_SECURITY_TPM_CRB",
        "COMPUTE_SECURITY_TPM_TIS",
    }


def test_memory_that_a_file_can_back_is_no_trait():
    # The trait is about the host's configuration.
    assert "COMPUTE_MEM_BACKING_FILE" not in domain("q35")
