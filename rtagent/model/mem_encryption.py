"""Encryption of guests' memory by the CPU (AMD SEV, Intel TDX): what the host has, and what a guest
gets.

A guest takes one context of the host. Each model has contexts of its own, and in Placement a
provider of its own, as in Nova.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import os_resource_classes as orc
import os_traits

from rtagent.model.base import Value, made_from

AMD_SEV: Final = "amd-sev"
#: Also encrypts the registers of the guest's CPUs.
AMD_SEV_ES: Final = "amd-sev-es"
#: Also protects the memory from changes by the host.
AMD_SEV_SNP: Final = "amd-sev-snp"
INTEL_TDX: Final = "intel-tdx"

#: The trait of a provider of contexts, by model. The os-traits of older releases of Nova lack the
#: last one.
TRAITS: Mapping[str, str] = {
    AMD_SEV: os_traits.HW_CPU_X86_AMD_SEV,
    AMD_SEV_ES: os_traits.HW_CPU_X86_AMD_SEV_ES,
    AMD_SEV_SNP: "HW_CPU_X86_AMD_SEV_SNP",
    INTEL_TDX: "HW_CPU_X86_INTEL_TDX",
}
MODELS = tuple(TRAITS)
RESOURCE_CLASS: Final = orc.MEM_ENCRYPTION_CONTEXT


class MemEncryption(Value, frozen=True, kw_only=True):
    """The encryption of a guest's memory.

    :ivar cbitpos: the bit of a page table entry that marks an encrypted page.
    :ivar reduced_phys_bits: by how many bits the physical address space of the guest is smaller.
        Both are facts of the host's CPU; None: this libvirt fills them in.
    """

    model: str
    cbitpos: int | None = None
    reduced_phys_bits: int | None = None

    @property
    def locks_memory(self) -> bool:
        """Whether the memory of the guest must stay in RAM (Nova's ``needs_locked_memory``)."""
        return self.model in (AMD_SEV, AMD_SEV_ES)


class EncryptionCapacity(MemEncryption, frozen=True, kw_only=True):
    """A model that the host supports.

    :ivar contexts: how many guests can have it at once; None: neither libvirt nor the kernel says
        it.
    """

    contexts: int | None = None

    @property
    def of_guest(self) -> MemEncryption:
        """The encryption of a guest that has it."""
        return made_from(MemEncryption, self)


def provider_suffix(model: str) -> str:
    """Return the suffix of the provider of a model's contexts (Nova's name)."""
    return model.replace("-", "_")


def pool(model: str) -> tuple[str, str]:
    """Return the suffix of the provider and the resource class, under which contexts count."""
    return provider_suffix(model), RESOURCE_CLASS


def encryption_of(pools: Iterable[tuple[str, str]]) -> MemEncryption | None:
    """Return the encryption of a guest that has something of these pools; None: of no context."""
    models = {pool(model): model for model in MODELS}
    return next((MemEncryption(model=models[each]) for each in pools if each in models), None)
