"""Encrypted memory in documents of libvirt."""

import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent.model.domain_usage import HostResource
from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_ES, EncryptionCapacity, MemEncryption
from rtagent.virt.libvirt.document import parse
from rtagent.virt.libvirt.domain import parse_domain
from rtagent.virt.libvirt.guest import xml
from rtagent.virt.libvirt.host import refused_encryption
from rtagent.virt.libvirt.host_facts import HostFacts
from rtagent.virt.libvirt.launch_security import encryption_capacities
from tests.support.guests import applied, granted, plain_domain

FACTS = "<cbitpos>51</cbitpos><reducedPhysBits>1</reducedPhysBits>"
NUMBERS = "<maxGuests>59</maxGuests><maxESGuests>0</maxESGuests>"
SEV = "<sev supported='yes'><maxGuests>9</maxGuests><maxESGuests>450</maxESGuests></sev>"


def capacities(sev, refused=frozenset()):
    return tuple(encryption_capacities(parse(f"<features>{sev}</features>"), refused))


def supported(model=AMD_SEV, contexts=None, **facts):
    return EncryptionCapacity(model=model, contexts=contexts, **facts)


@pytest.mark.parametrize(
    ("written", "refused"),
    [("Y\n", set()), ("1\n", set()), ("N\n", {AMD_SEV_ES}), (None, {AMD_SEV_ES})],
)
def test_a_kernel_without_sev_es_refuses_it(tmp_path, written, refused):
    if written is not None:
        (tmp_path / "sev_es").write_text(written)
    assert refused_encryption("qemu:///system", tmp_path) == refused
    assert {AMD_SEV, AMD_SEV_ES} - {each.model for each in capacities(SEV, refused)} == refused
    assert refused_encryption("qemu+tls://cn7.example/system", tmp_path) == set()
    assert refused_encryption("qemu:///system", tmp_path / "absent") == set()


@pytest.mark.parametrize(
    ("sev", "expected"),
    [
        ("<sev supported='no'/>", ()),
        ("<sev supported='yes'><cbitpos>47</cbitpos></sev>", (supported(cbitpos=47),)),
        (
            f"<sev supported='yes'>{FACTS}{NUMBERS}</sev>",
            (supported(contexts=59, cbitpos=51, reduced_phys_bits=1),),
        ),
        (SEV, (supported(contexts=9), supported(AMD_SEV_ES, 450))),
        ("<sev supported='yes'><maxGuests>0</maxGuests></sev>", ()),
    ],
)
def test_models_of_a_host(sev, expected):
    assert capacities(sev) == expected


def types(*names, supported="yes"):
    values = "".join(f"<value>{name}</value>" for name in names)
    listed = f"<enum name='sectype'>{values}</enum>"
    return f"<launchSecurity supported='{supported}'>{listed}</launchSecurity>"


@pytest.mark.parametrize(
    ("features", "models"),
    [
        (SEV + types("sev", "sev-snp"), [AMD_SEV]),
        (SEV + types("sev"), [AMD_SEV, AMD_SEV_ES]),
        (SEV + types("sev-snp", supported="no"), [AMD_SEV, AMD_SEV_ES]),
        ("<tdx supported='yes'/>" + types("tdx"), []),
        ("<sev supported='no'/><tdx supported='yes'/>" + types("tdx", "sev-snp"), []),
    ],
)
def test_sev_es_is_not_offered_while_sev_snp_is_switched_on(features, models):
    assert [capacity.model for capacity in capacities(features)] == models


def with_encryption(model=AMD_SEV, **specs):
    encryption = MemEncryption(model=model, cbitpos=51, reduced_phys_bits=1)
    return replace(granted(**specs), mem_encryption=encryption)


@pytest.mark.parametrize(("model", "policy"), [(AMD_SEV, "0x0033"), (AMD_SEV_ES, "0x0037")])
def test_a_guest_is_launched_with_the_policy_of_its_model(model, policy):
    claim = with_encryption(model)
    domain = etree.fromstring(applied(claim))
    (security,) = domain.findall("launchSecurity")
    assert security.get("type") == "sev"
    found = [security.findtext(tag) for tag in ("cbitpos", "reducedPhysBits", "policy")]
    assert found == ["51", "1", policy]
    assert domain.find("memoryBacking/locked") is not None
    occupancy = parse_domain(applied(claim)).confinement.occupancy(HostFacts())
    assert occupancy.mem_encryption == model
    assert "<launchSecurity" in xml(claim)


@pytest.mark.parametrize("specs", [{"locked_memory": "yes", "mem_page_size": "small"}, {}])
def test_memory_is_locked_once(specs):
    domain = etree.fromstring(applied(with_encryption(**specs)))
    assert len(domain.findall("memoryBacking/locked")) == 1


def test_facts_that_libvirt_fills_in_are_left_out():
    claim = replace(granted(), mem_encryption=MemEncryption(model=AMD_SEV))
    (security,) = etree.fromstring(applied(claim)).findall("launchSecurity")
    assert [each.tag for each in security] == ["policy"]


def test_applying_a_claim_twice_changes_nothing_and_the_callers_session_stays():
    claim = with_encryption()
    own = "<launchSecurity type='sev'><policy>0x1</policy><session>AAA</session></launchSecurity>"
    once = applied(claim, domain=plain_domain().replace("</domain>", f"{own}</domain>"))
    assert once.count("<launchSecurity") == 1 and "<session>AAA</session>" in once
    assert "0x0033" in once
    for first in (once, applied(claim)):
        assert applied(claim, domain=first) == first


def test_a_guest_without_encryption_has_none():
    plain = applied(granted())
    encrypted = applied(with_encryption(), domain=plain)
    assert applied(granted(), domain=encrypted) == plain
    assert parse_domain(plain).confinement.mem_encryption is None


def test_the_encryption_of_a_domain_with_an_odd_policy_is_unknown():
    odd = "<launchSecurity type='sev'><policy>none</policy></launchSecurity>"
    facts = parse_domain(plain_domain().replace("</domain>", f"{odd}</domain>"))
    assert facts.confinement.unknown == {HostResource.ENCRYPTION}
    assert facts.problems == ("<policy> of <launchSecurity> is 'none', not a number",)
