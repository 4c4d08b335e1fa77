"""Encrypted memory (AMD SEV, Intel TDX) in libvirt's documents of a host and of a domain. Pure."""

from collections.abc import Iterator, Mapping

from lxml import etree

from rtagent.model.mem_encryption import (
    AMD_SEV,
    AMD_SEV_ES,
    AMD_SEV_SNP,
    INTEL_TDX,
    EncryptionCapacity,
    MemEncryption,
)
from rtagent.virt.libvirt.document import BadDocument, E, enum, integer

#: Bits of the guest's policy in AMD's SEV API: no debugging, no sharing of keys, encrypted state,
#: no other platform, no platform without SEV.
_NO_DEBUG, _NO_KEY_SHARING, _STATE, _DOMAIN, _SEV = 0x1, 0x2, 0x4, 0x10, 0x20
_POLICY = _NO_DEBUG | _NO_KEY_SHARING | _DOMAIN | _SEV
#: The same of SEV-SNP: hardware threads may be siblings; one that is always set.
_SNP_POLICY = 0x10000 | 0x20000
#: The policy of each model, as in Nova. That of Intel TDX is QEMU's.
_POLICIES: Mapping[str, str] = {
    AMD_SEV: f"0x{_POLICY:04x}",
    AMD_SEV_ES: f"0x{_POLICY | _STATE:04x}",
    AMD_SEV_SNP: f"0x{_SNP_POLICY:08x}",
}
#: The types of ``<launchSecurity>`` that claims have, and the model without encrypted state.
ENCRYPTION_TYPES: Mapping[str, str] = {"sev": AMD_SEV, "sev-snp": AMD_SEV_SNP, "tdx": INTEL_TDX}
#: The element with the number of guests of each model.
_CONTEXTS: Mapping[str, str] = {
    AMD_SEV: "maxGuests",
    AMD_SEV_ES: "maxESGuests",
    AMD_SEV_SNP: "maxESGuests",
}
#: The types of ``<launchSecurity>`` that a host supports.
_TYPES = "launchSecurity[@supported='yes']/enum[@name='sectype']"
_LARGEST = 2**31 - 1


def encryption_capacities(
    features: etree._Element, refused: frozenset[str], tdx_keys: int | None
) -> Iterator[EncryptionCapacity]:
    """Yield the models that a host supports, from the element ``<features>``.

    While SEV-SNP is switched on, its guests take the contexts of those with SEV-ES, which do not
    start (LP2157891).

    :param refused: models that the kernel refuses. :param tdx_keys: of the kernel, if it says it.
    :raises BadDocument: a number is invalid.
    """
    has_snp = "sev-snp" in enum(features, _TYPES) and AMD_SEV_SNP not in refused
    blocked = refused | {AMD_SEV_ES if has_snp else AMD_SEV_SNP}
    for sev in features.iterfind("sev[@supported='yes']"):
        for model, tag in _CONTEXTS.items():
            contexts = _number(sev, tag)
            # An older libvirt has neither number; then it has no guests with encrypted state.
            if contexts == 0 or (contexts is None and model != AMD_SEV) or model in blocked:
                continue
            yield EncryptionCapacity(
                model=model,
                cbitpos=_number(sev, "cbitpos"),
                reduced_phys_bits=_number(sev, "reducedPhysBits"),
                contexts=contexts,
            )
    if features.find("tdx[@supported='yes']") is not None and tdx_keys != 0:
        yield EncryptionCapacity(model=INTEL_TDX, contexts=tdx_keys)


def launch_security(encryption: MemEncryption) -> etree._Element:
    """Build ``<launchSecurity>`` of a guest."""
    types = {model: name for name, model in ENCRYPTION_TYPES.items()}
    element = E.launchSecurity(type=types.get(encryption.model, "sev"))
    facts = (("cbitpos", encryption.cbitpos), ("reducedPhysBits", encryption.reduced_phys_bits))
    for tag, value in facts:
        if value is not None:
            element.append(E(tag, str(value)))
    if encryption.model in _POLICIES:
        element.append(E.policy(_POLICIES[encryption.model]))
    if encryption.model == INTEL_TDX:  # libvirt fills in where it listens
        element.append(E.quoteGenerationService())
    return element


def encryption_model(domain: etree._Element) -> str | None:
    """Return the model of encryption that a domain document uses; None: none of these.

    :raises BadDocument: the policy is not a number.
    """
    element = domain.find("launchSecurity")
    model = None if element is None else ENCRYPTION_TYPES.get(element.get("type", ""))
    if element is None or model != AMD_SEV:
        return model
    policy = element.findtext("policy", "0")
    try:
        return AMD_SEV_ES if int(policy, 16) & _STATE else AMD_SEV
    except ValueError as error:
        raise BadDocument(f"<policy> of <launchSecurity> is {policy!r}, not a number") from error


def _number(sev: etree._Element, tag: str) -> int | None:
    written = sev.findtext(tag)
    return None if written is None else integer(written, f"<{tag}>", _LARGEST)
