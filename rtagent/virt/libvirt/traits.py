"""Capability traits, named by os-traits: those that documents of libvirt state, and those that
follow from the kind and the version of the hypervisor. Pure.

The latter are those of Nova's libvirt driver. The names of models that no document of libvirt lists
are known by version, as the driver knows them.
"""

import re
from collections.abc import Collection, Iterable, Iterator

import os_traits
from lxml import etree

from rtagent.virt.libvirt.capabilities import HostCapabilities
from rtagent.virt.libvirt.document import enum

_KNOWN = frozenset(os_traits.get_traits())

_CPU_PREFIX = {"i686": "HW_CPU_X86_", "x86_64": "HW_CPU_X86_", "aarch64": "HW_CPU_AARCH64_"}

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
)

_TPM_VERSION = "devices/tpm/enum[@name='backendVersion']"
#: The versions of an emulated TPM. swtpm has both; a libvirt before 8.6 does not list them.
_TPM_VERSIONS = {"1.2": "COMPUTE_SECURITY_TPM_1_2", "2.0": "COMPUTE_SECURITY_TPM_2_0"}

#: Who may read the state of an emulated TPM. Those who act on claims decide that; Nova 34 requires
#: the trait of one of them for each guest with a TPM.
_TPM_SECRETS = (
    "COMPUTE_SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT",
    "COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST",
    "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER",
)

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
    if emulated:
        yield from _TPM_SECRETS
        listed = enum(root, _TPM_VERSION) if root.find(_TPM_VERSION) is not None else _TPM_VERSIONS
        yield from (trait for version, trait in _TPM_VERSIONS.items() if version in listed)


def driver_traits(
    hypervisor_type: str, libvirt: int, hypervisor: int, arches: Collection[str]
) -> frozenset[str]:
    """Return the traits of the driver on a hypervisor.

    :param libvirt: and hypervisor: versions as libvirt encodes them: 1,000,000 * major + 1,000 *
        minor + release.
    :param arches: of its guests.
    """
    common = frozenset((*_OF_CALLERS, *_OF_THE_AGENT))
    if hypervisor_type != _QEMU:
        return common
    models = (
        trait
        for trait, least_libvirt, least_hypervisor in _OF_QEMU
        if libvirt >= _encoded(least_libvirt) and hypervisor >= _encoded(least_hypervisor)
    )
    return common.union(models, (trait for arch, trait in _VIOMMU.items() if arch in arches))


def _encoded(version: tuple[int, int, int]) -> int:
    major, minor, release = version
    return 1_000_000 * major + 1_000 * minor + release
