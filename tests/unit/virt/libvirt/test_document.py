"""Reading XML documents as libvirt reads them."""

import re

import libvirt
import pytest
from lxml import etree

from rtagent.virt.libvirt.document import BadDocument, parse, pci_address


@pytest.mark.parametrize("encoding", ["UTF-8", "utf-16", "ISO-8859-1"])
def test_text_with_any_declared_encoding_is_a_document(encoding):
    text = f"<?xml version='1.0' encoding='{encoding}'?>\n<domain><name>\u00e9</name></domain>"
    assert parse(text).findtext("name") == parse(text.encode(encoding)).findtext("name") == "\u00e9"


@pytest.fixture(scope="module")
def test_driver():
    connection = libvirt.open("test:///default")
    yield connection
    connection.close()


@pytest.mark.parametrize(
    "written",
    [
        "domain='0x0000' bus='0x20' slot='0x02' function='0x1'",
        "domain='0' bus='16' slot='31' function='7'",
        "domain='0X1' bus='010' slot='012' function='00'",
        "domain='65535' bus='255' slot='0x1F'",
        "bus=' +16'",
        "slot='3'",
    ],
)
def test_an_address_is_read_as_libvirt_reads_it(test_driver, written):
    device = f"<hostdev mode='subsystem' type='pci'><source><address {written}/></source></hostdev>"
    domain = test_driver.defineXML(
        "<domain type='test'><name>addresses</name><memory>1024</memory><os><type>hvm</type></os>"
        f"<devices>{device}</devices></domain>"
    )
    shown = etree.fromstring(domain.XMLDesc()).find("devices/hostdev/source/address")
    domain.undefine()
    names = ("domain", "bus", "slot", "function")
    expected = "{}:{}:{}.{}".format(*(shown.get(name).removeprefix("0x") for name in names))
    assert pci_address(etree.fromstring(f"<address {written}/>"), "x") == expected


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("bus='1a'", "x: bus is '1a', not a number"),
        ("slot='09'", "x: slot is '09', not a number"),
        ("bus=''", "x: bus is '', not a number"),
        ("bus='-1'", "x: bus is '-1', not a number"),
        ("bus='16 '", "x: bus is '16 ', not a number"),
        ("bus='0x'", "x: bus is '0x', not a number"),
        ("bus='256'", "x: bus: 100 is more than FF"),
        ("slot='32'", "x: slot: 20 is more than 1F"),
    ],
)
def test_an_address_that_libvirt_refuses_is_refused(written, problem):
    with pytest.raises(BadDocument, match=re.escape(problem)):
        pci_address(etree.fromstring(f"<address {written}/>"), "x")
