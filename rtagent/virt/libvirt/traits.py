"""Capability traits of the host, named by os-traits. Pure.

Only facts that a document states are reported. Capabilities of the caller's own code (attaching
volumes, config drives, image formats) must be published by the caller.
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
    ("memoryBacking/enum[@name='sourceType']", "file", "COMPUTE_MEM_BACKING_FILE"),
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
    if host.hyperthreading:
        named.add("HW_CPU_HYPERTHREADING")
    prefix = _CPU_PREFIX.get(host.arch)
    if prefix is not None:
        renamed = _X86 if prefix == "HW_CPU_X86_" else {}
        named |= {
            prefix + name
            for feature in features
            for name in renamed.get(feature) or (re.sub(r"[^A-Z0-9]", "", feature.upper()),)
        }
    return frozenset(named & _KNOWN)


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
