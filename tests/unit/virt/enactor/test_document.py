"""The domain document of a server."""

import pytest
from lxml import etree

from rtagent.conductor.checks import checked_identity
from rtagent.virt.enactor.host import (
    NAMESPACE,
    claim_of,
    device_name,
    domain_document,
    mdev_names,
)
from tests.support.guests import VGPU, guest_domain, plain_domain
from tests.support.hosts import uid


def document(domain, virt_type="kvm", architecture="x86_64"):
    return etree.fromstring(domain_document(domain, virt_type, architecture))


def test_minimal_document_has_the_size_of_the_flavor_and_enacts_the_claim():
    domain = guest_domain(2, 3, memory_mb=128, name="web-1")
    root = document(domain)
    assert root.get("type") == "kvm"
    assert [root.findtext(tag) for tag in ("name", "uuid", "vcpu")] == [*2 * [domain.uuid], "2"]
    assert root.findtext("title") == "web-1"
    assert claim_of(etree.tostring(root)) == domain.claim.uuid
    assert (root.find("memory").get("unit"), root.findtext("memory")) == ("MiB", "128")
    assert [pin.get("cpuset") for pin in root.iterfind("cputune/vcpupin")] == ["2", "3"]
    assert root.find("os/type").get("machine") == "q35"


@pytest.mark.parametrize(
    ("architecture", "properties", "machine"),
    [
        ("aarch64", {}, None),
        ("x86_64", {"hw_machine_type": "pc"}, "pc"),
        ("aarch64", {"hw_machine_type": "virt-7.2"}, "virt-7.2"),
    ],
)
def test_machine_type_is_that_of_the_image(architecture, properties, machine):
    root = document(guest_domain(**properties), architecture=architecture)
    type_ = root.find("os/type")
    assert (type_.get("arch"), type_.get("machine")) == (architecture, machine)


def test_document_of_the_caller_keeps_what_the_claim_does_not_determine():
    domain = guest_domain(2, 3, memory_mb=96, name="db-1", document=plain_domain(memory_mb=7))
    root = document(domain)
    assert root.get("type") == "qemu", "the type is the caller's"
    assert [root.findtext(tag) for tag in ("name", "uuid", "memory")] == [*2 * [domain.uuid], "96"]
    assert root.findtext("title") == "db-1"
    assert root.find("devices/memballoon").get("model") == "none"
    assert root.findtext("metadata/{http://example.org/of}note") == "kept"
    assert len(root.findall("cputune/vcpupin")) == 2
    assert [len(root.findall(tag)) for tag in ("name", "uuid", "title", "metadata")] == 4 * [1]


def test_a_document_names_the_claim_that_was_applied_last():
    domain = guest_domain(document=plain_domain())
    first = domain_document(domain, "kvm", "x86_64")
    other = guest_domain(owner=domain.uuid, document=first)
    assert claim_of(first) == domain.claim.uuid
    assert claim_of(domain_document(other, "kvm", "x86_64")) == other.claim.uuid
    assert claim_of(plain_domain()) is None


@pytest.mark.parametrize("nested", [True, False])
def test_what_a_caller_puts_into_metadata_is_not_taken_for_the_claim(nested):
    forged = f'<r:other xmlns:r="{NAMESPACE}"/><r:server xmlns:r="{NAMESPACE}" claim="forged"/>'
    forged = f'<m:x xmlns:m="urn:m">{forged}</m:x>' if nested else forged
    domain = guest_domain(document=plain_domain().replace("<metadata>", f"<metadata>{forged}"))
    root = document(domain)
    assert claim_of(etree.tostring(root)) == domain.claim.uuid
    assert len(root.findall(f"metadata/{{{NAMESPACE}}}*")) == 1


@pytest.mark.parametrize("name", ["a/b", "<b>&\"'", "\U0001f600\u2028\x85", "w" * 200])
def test_a_name_is_the_title_as_it_is(name):
    assert checked_identity(uid(1), name).name == name
    assert document(guest_domain(name=name)).findtext("title") == name


def test_mediated_devices_of_a_document():
    domain = guest_domain(resources=(VGPU,))
    (name,) = mdev_names(domain_document(domain, "kvm", "x86_64"))
    assert device_name(domain.node_devices[0]).startswith(name)
    assert mdev_names(plain_domain()) == ()
