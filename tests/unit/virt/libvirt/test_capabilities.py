"""Capabilities documents, as libvirt gives them."""

import pytest

from rtagent.virt.libvirt.capabilities import parse_capabilities
from rtagent.virt.libvirt.document import BadDocument
from tests.data import read


def test_one_socket():
    host = parse_capabilities(read("libvirt/capabilities-one-socket.xml"))

    assert host.host_uuid == "4c4c4544-0042-3510-8051-b4c04f4e4c31"
    assert host.arch == "x86_64"
    assert host.cpus == {0, 1}
    assert not host.hyperthreading
    assert host.guests == (
        ("i686", "qemu", "hvm"),
        ("i686", "kvm", "hvm"),
        ("x86_64", "qemu", "hvm"),
        ("x86_64", "kvm", "hvm"),
    )
    info = host.cpu_info
    assert (info["arch"], info["model"], info["vendor"]) == ("x86_64", "Broadwell", "Intel")
    assert info["topology"] == {"cells": 1, "sockets": 1, "dies": 1, "cores": 2, "threads": 1}
    assert "avx512f" in info["features"]
    assert info["features"] == sorted(info["features"])


def test_two_sockets_with_one_cpu_offline():
    host = parse_capabilities(read("libvirt/capabilities-two-sockets.xml"))

    assert host.cpus == {0, 1, 2, 3, 4, 6, 7}
    assert host.hyperthreading
    assert host.cpu_info["topology"]["cells"] == 2


def test_physical_address_bits_are_those_that_libvirt_reports():
    two_sockets = read("libvirt/capabilities-two-sockets.xml")
    assert parse_capabilities(two_sockets).cpu_info["maxphysaddr"] == {
        "mode": "emulate",
        "bits": 46,
    }
    aarch64 = read("libvirt/capabilities-aarch64.xml")
    assert "maxphysaddr" not in parse_capabilities(aarch64).cpu_info
    with pytest.raises(BadDocument, match="maxphysaddr bits"):
        parse_capabilities(two_sockets.replace("bits='46'", "bits='many'"))


def test_aarch64():
    host = parse_capabilities(read("libvirt/capabilities-aarch64.xml"))

    assert host.arch == "aarch64"
    assert host.cpus == {0, 1, 2, 3}
    assert not host.hyperthreading
    assert host.guests == (("aarch64", "qemu", "hvm"), ("aarch64", "kvm", "hvm"))


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ("nonsense", "not well-formed"),
        ("<domain/>", "no <capabilities>"),
        ("<capabilities><host/></capabilities>", "its <cpu>"),
        ("<capabilities><host><cpu/></host></capabilities>", "no <arch>"),
    ],
)
def test_an_invalid_document_names_the_element(odd, message):
    with pytest.raises(BadDocument, match=message):
        parse_capabilities(odd)


def test_a_host_uuid_that_could_not_name_a_lock_file_is_refused():
    text = read("libvirt/capabilities-one-socket.xml")
    odd = text.replace("4c4c4544-0042-3510-8051-b4c04f4e4c31", "../../x")

    with pytest.raises(BadDocument, match=r"<uuid> of <host> is '../../x', not a uuid"):
        parse_capabilities(odd)


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 20, "\N{ARABIC-INDIC DIGIT THREE}", "-1"])
def test_cpu_with_a_number_that_cannot_be_used_is_left_out_and_another_part_is_refused(number):
    good = read("libvirt/capabilities-one-socket.xml")
    assert parse_capabilities(good.replace('<cpu id="1"', f'<cpu id="{number}"')).cpus == {0}
    text = good.replace('cores="2"', f'cores="{number}"')

    with pytest.raises(BadDocument, match="<topology cores> is ") as caught:
        parse_capabilities(text)

    assert len(str(caught.value)) < 400
