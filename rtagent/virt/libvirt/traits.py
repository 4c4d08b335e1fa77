"""Capability traits that documents of libvirt state, named by os-traits. Pure.

`rtagent.virt.libvirt.driver_traits` has those that follow from versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import os_traits
from lxml import etree

from rtagent.virt.libvirt.capabilities import HostCapabilities
from rtagent.virt.libvirt.document import enum

_KNOWN = frozenset(os_traits.get_traits())

_CPU_PREFIX = {
    "i686": "HW_CPU_X86_",
    "x86_64": "HW_CPU_X86_",
    "aarch64": "HW_CPU_AARCH64_",
}

#: x86 features whose trait is not their upper-case name.
_X86 = {
    "aes": ("AESNI",),
    "amd-no-ssb": ("AMD_NO_SSB",),
    "amd-ssbd": ("AMD_SSBD",),
    "bmi1": ("BMI",),
    "fma": ("FMA3",),
    "ibpb": ("AMD_IBPB",),
    "md-clear": ("INTEL_MD_CLEAR",),
    "pcid": ("INTEL_PCID",),
    "pclmuldq": ("CLMUL",),
    "pni": ("SSE3",),
    "rtm": ("TSX",),
    "sha-ni": ("SHA",),
    "spec-ctrl": ("INTEL_SPEC_CTRL",),
    "ssbd": ("INTEL_SSBD",),
    "svm": ("SVM", "AMD_SVM"),
    "virt-ssbd": ("AMD_VIRT_SSBD",),
    "vmx": ("VMX", "INTEL_VMX"),
}

#: x86 features whose trait is one of AVX-512. CPUs without AVX-512 may have them, too.
_WITH_AVX512 = {
    "gfni": "HW_CPU_X86_AVX512GFNI",
    "vaes": "HW_CPU_X86_AVX512VAES",
    "vpclmulqdq": "HW_CPU_X86_AVX512VPCLMULQDQ",
}

#: Enums in domain capabilities, and the prefix of the trait of each value.
_ENUMS = (
    ("devices/disk/enum[@name='bus']", "COMPUTE_STORAGE_BUS_"),
    ("devices/video/enum[@name='modelType']", "COMPUTE_GRAPHICS_MODEL_"),
    ("devices/interface/enum[@name='modelType']", "COMPUTE_NET_VIF_MODEL_"),
)

#: Enums in domain capabilities, a value, and the trait of that value.
_VALUES = (
    ("os/enum[@name='firmware']", "bios", "COMPUTE_FIRMWARE_BIOS"),
    ("os/enum[@name='firmware']", "efi", "COMPUTE_FIRMWARE_UEFI"),
    ("os/loader/enum[@name='secure']", "yes", "COMPUTE_SECURITY_UEFI_SECURE_BOOT"),
    ("devices/filesystem/enum[@name='driverType']", "virtiofs", "COMPUTE_STORAGE_VIRTIO_FS"),
)

_TPM = (
    ("devices/tpm/enum[@name='model']", "tpm-tis", "COMPUTE_SECURITY_TPM_TIS"),
    ("devices/tpm/enum[@name='model']", "tpm-crb", "COMPUTE_SECURITY_TPM_CRB"),
    ("devices/tpm/enum[@name='backendVersion']", "1.2", "COMPUTE_SECURITY_TPM_1_2"),
    ("devices/tpm/enum[@name='backendVersion']", "2.0", "COMPUTE_SECURITY_TPM_2_0"),
)


def host_traits(host: HostCapabilities, features: Iterable[str]) -> frozenset[str]:
    """Return the traits of the host and its CPU.

    :param features: of the CPU, including those that its model implies.
    """
    named = {f"COMPUTE_ARCH_{arch.upper()}" for arch, _, _ in host.guests}
    named.add(f"HW_ARCH_{host.arch.upper()}")
    if host.hyperthreading:
        named.add("HW_CPU_HYPERTHREADING")
    return frozenset((named | set(_cpu_names(host.arch, frozenset(features)))) & _KNOWN)


def _cpu_names(arch: str, features: frozenset[str]) -> Iterator[str]:
    prefix = _CPU_PREFIX.get(arch, "")
    is_x86 = prefix == "HW_CPU_X86_"
    for feature in features if prefix else ():
        renamed = _X86.get(feature) if is_x86 else None
        for name in renamed or (re.sub(r"[^A-Z0-9]", "", feature.upper()),):
            yield prefix + name
    if is_x86 and "avx512f" in features:
        yield from (trait for feature, trait in _WITH_AVX512.items() if feature in features)


def domain_traits(domain_capabilities: etree._Element) -> frozenset[str]:
    """Return the traits of guests of one machine type."""
    return frozenset(set(_domain_names(domain_capabilities)) & _KNOWN)


def _domain_names(root: etree._Element) -> Iterator[str]:
    for path, prefix in _ENUMS:
        for value in enum(root, path):
            yield prefix + re.sub(r"[^A-Z0-9]", "_", value.upper())
    # A flavor requests an emulated TPM, which is different from passing the host's TPM through to
    # one guest.
    emulated = "emulator" in enum(root, "devices/tpm/enum[@name='backendModel']")
    for path, value, trait in _VALUES + (_TPM if emulated else ()):
        if value in enum(root, path):
            yield trait
