"""Encrypted memory (AMD SEV) in documents of libvirt, of a host and of a domain. Pure."""

from collections.abc import Iterator, Mapping

from lxml import etree

from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_ES, EncryptionCapacity, MemEncryption
from rtagent.virt.libvirt.document import BadDocument, E, enum, integer

#: Bits of the guest's policy in AMD's SEV API: no debugging, no sharing of keys, encrypted state,
#: no other platform, no platform without SEV.
_NO_DEBUG, _NO_KEY_SHARING, _STATE, _DOMAIN, _SEV = 0x1, 0x2, 0x4, 0x10, 0x20
_POLICY = _NO_DEBUG | _NO_KEY_SHARING | _DOMAIN | _SEV
#: The policy of each model, as in Nova.
_POLICIES: Mapping[str, int] = {AMD_SEV: _POLICY, AMD_SEV_ES: _POLICY | _STATE}
#: The element with the number of guests of each model.
_CONTEXTS: Mapping[str, str] = {AMD_SEV: "maxGuests", AMD_SEV_ES: "maxESGuests"}
#: The types of ``<launchSecurity>`` that a host supports.
_TYPES = "launchSecurity[@supported='yes']/enum[@name='sectype']"
_LARGEST = 2**31 - 1


def encryption_capacities(
    features: etree._Element, refused: frozenset[str]
) -> Iterator[EncryptionCapacity]:
    """Yield the models that a host supports, from an element that has ``<sev>``.

    While SEV-SNP is switched on, guests with SEV-ES do not start (LP2157891). SEV-SNP itself and
    Intel TDX are no models of claims.

    :param refused: models that the kernel refuses.
    :raises BadDocument: a number is invalid.
    """
    blocked = refused | ({AMD_SEV_ES} if "sev-snp" in enum(features, _TYPES) else set())
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


def launch_security(encryption: MemEncryption) -> etree._Element:
    """Build ``<launchSecurity>`` of a guest."""
    element = E.launchSecurity(type="sev")
    facts = (("cbitpos", encryption.cbitpos), ("reducedPhysBits", encryption.reduced_phys_bits))
    for tag, value in facts:
        if value is not None:
            element.append(E(tag, str(value)))
    element.append(E.policy(f"0x{_POLICIES[encryption.model]:04x}"))
    return element


def encryption_model(domain: etree._Element) -> str | None:
    """Return the model of encryption that a domain document uses; None: none of these.

    :raises BadDocument: the policy is not a number.
    """
    element = domain.find("launchSecurity[@type='sev']")
    if element is None:
        return None
    policy = element.findtext("policy", "0")
    try:
        return AMD_SEV_ES if int(policy, 16) & _STATE else AMD_SEV
    except ValueError as error:
        raise BadDocument(f"<policy> of <launchSecurity> is {policy!r}, not a number") from error


def _number(sev: etree._Element, tag: str) -> int | None:
    written = sev.findtext(tag)
    return None if written is None else integer(written, f"<{tag}>", _LARGEST)
