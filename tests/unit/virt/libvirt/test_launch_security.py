"""Encrypted memory in documents of libvirt."""

import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent.model.domain_usage import HostResource
from rtagent.model.mem_encryption import (
    AMD_SEV,
    AMD_SEV_ES,
    AMD_SEV_SNP,
    INTEL_TDX,
    EncryptionCapacity,
    MemEncryption,
)
from rtagent.virt.libvirt.document import HostFacts, parse
from rtagent.virt.libvirt.domain import parse_domain
from rtagent.virt.libvirt.guest import apply, xml
from rtagent.virt.libvirt.host import refused_encryption, tdx_keys
from rtagent.virt.libvirt.launch_security import encryption_capacities
from tests.support.guests import applied, granted, plain_domain

FACTS = "<cbitpos>51</cbitpos><reducedPhysBits>1</reducedPhysBits>"
NUMBERS = "<maxGuests>59</maxGuests><maxESGuests>0</maxESGuests>"
SEV = "<sev supported='yes'><maxGuests>9</maxGuests><maxESGuests>450</maxESGuests></sev>"


def capacities(features, refused=frozenset(), keys=None):
    return tuple(encryption_capacities(parse(f"<features>{features}</features>"), refused, keys))


def supported(model=AMD_SEV, contexts=None, **facts):
    return EncryptionCapacity(model=model, contexts=contexts, **facts)


def types(*names, supported="yes"):
    values = "".join(f"<value>{name}</value>" for name in names)
    listed = f"<enum name='sectype'>{values}</enum>"
    return f"<launchSecurity supported='{supported}'>{listed}</launchSecurity>"


@pytest.mark.parametrize(
    ("parameters", "models"),
    [
        ({"sev_es": "Y\n", "sev_snp": "N\n"}, {AMD_SEV, AMD_SEV_ES}),
        ({"sev_es": "1\n"}, {AMD_SEV, AMD_SEV_ES}),
        ({"sev_es": "Y\n", "sev_snp": "Y\n"}, {AMD_SEV, AMD_SEV_SNP}),
        ({"sev_es": "N\n", "sev_snp": "N\n"}, {AMD_SEV}),
        ({}, {AMD_SEV}),
    ],
)
def test_a_kernel_refuses_what_is_off_and_sev_es_beside_sev_snp(tmp_path, parameters, models):
    for name, value in parameters.items():
        (tmp_path / name).write_text(value)
    refused = refused_encryption("qemu:///system", tmp_path)
    assert {each.model for each in capacities(SEV + types("sev", "sev-snp"), refused)} == models
    assert {each.model for each in capacities(SEV, refused)} == models - {AMD_SEV_SNP}
    assert refused_encryption("qemu+tls://cn7.example/system", tmp_path) == set()
    assert refused_encryption("qemu:///system", tmp_path / "absent") == set()


@pytest.mark.parametrize(
    ("written", "keys"),
    [("sev 500\ntdx 31\n", 31), ("tdx 0\n", 0), ("sev 500\n", None), ("tdx many\n", None)],
)
def test_the_kernel_says_how_many_guests_have_intel_tdx(tmp_path, written, keys):
    file = tmp_path / "misc.capacity"
    file.write_text(written)
    assert tdx_keys("qemu:///system", file) == keys
    assert tdx_keys("qemu+tls://cn7.example/system", file) is None
    assert tdx_keys("qemu:///system", tmp_path / "absent") is None


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


@pytest.mark.parametrize(
    ("features", "models"),
    [
        (SEV + types("sev", "sev-snp"), {AMD_SEV: 9, AMD_SEV_SNP: 450}),
        (SEV + types("sev"), {AMD_SEV: 9, AMD_SEV_ES: 450}),
        (SEV + types("sev-snp", supported="no"), {AMD_SEV: 9, AMD_SEV_ES: 450}),
        ("<sev supported='yes'/>" + types("sev", "sev-snp"), {AMD_SEV: None}),
        ("<sev supported='no'/>" + types("sev-snp"), {}),
        ("<tdx supported='yes'/>" + types("tdx"), {INTEL_TDX: 31}),
        ("<tdx supported='no'/>", {}),
    ],
)
def test_guests_with_sev_snp_take_the_contexts_of_sev_es(features, models):
    assert {each.model: each.contexts for each in capacities(features, keys=31)} == models


def test_intel_tdx_needs_a_key_or_the_word_of_the_operator():
    tdx = "<tdx supported='yes'/>"
    assert capacities(tdx, keys=0) == ()
    assert capacities(tdx) == (supported(INTEL_TDX),)


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


def written(model, own=""):
    """A guest with encryption. The schema of Debian's libvirt has neither SEV-SNP nor Intel TDX."""
    facts = {} if model == INTEL_TDX else {"cbitpos": 51, "reduced_phys_bits": 1}
    claim = replace(granted(), mem_encryption=MemEncryption(model=model, **facts))
    return apply(plain_domain().replace("</domain>", f"{own}</domain>"), claim)


def in_one_line(document):
    return "".join(line.strip() for line in document.splitlines()).replace('"', "'")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            AMD_SEV_SNP,
            "<launchSecurity type='sev-snp'><cbitpos>51</cbitpos>"
            "<reducedPhysBits>1</reducedPhysBits><policy>0x00030000</policy></launchSecurity>",
        ),
        (INTEL_TDX, "<launchSecurity type='tdx'><quoteGenerationService/></launchSecurity>"),
    ],
)
def test_newer_models_have_types_of_their_own_and_lock_no_memory(model, expected):
    document = written(model)
    assert expected in in_one_line(document)
    assert "<locked" not in document
    occupancy = parse_domain(document).confinement.occupancy(HostFacts())
    assert occupancy.mem_encryption == model
    assert apply(document, replace(granted(), mem_encryption=None)) == applied(granted())


@pytest.mark.parametrize("type_", ["sev", "sev-snp", "tdx", "s390-pv"])
@pytest.mark.parametrize("model", [AMD_SEV, AMD_SEV_SNP, INTEL_TDX])
def test_encryption_of_another_type_is_replaced(model, type_):
    own = f"<launchSecurity type='{type_}'><policy>0x7</policy></launchSecurity>"
    assert written(model, own) == written(model)


@pytest.mark.parametrize(
    ("model", "own"),
    [
        (INTEL_TDX, "<launchSecurity type='tdx'><quoteGenerationService path='/run/qgs'/>"),
        (AMD_SEV_SNP, "<launchSecurity type='sev-snp' vcek='no'><idBlock>AAAA</idBlock>"),
    ],
)
def test_what_the_caller_says_of_its_attestation_stays(model, own):
    document = in_one_line(written(model, f"{own}</launchSecurity>"))
    assert own in document
    assert document.count("quoteGenerationService") == (model == INTEL_TDX)


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
