"""Documents of hosts and of their devices, as rtagent reads them and as libvirt documents them."""

from xml.etree import ElementTree

import pytest
from lxml import etree

from rtagent.model.device import Device
from rtagent.virt.libvirt.capabilities import parse_capabilities, parse_cells
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.launch_security import encryption_capacities
from rtagent.virt.libvirt.node_device_xml import BridgeNode, NetNode, VdpaNode, parse_node_device
from tests.documents.differences import READ
from tests.documents.oracle import host, node_device
from tests.documents.oracle.values import Impossible
from tests.documents.source import difference, folders, require_equal

REFUSED = "refused"


def node(document):
    found = parse_node_device(document)
    if found is None:
        return None
    names = {"name": found.name, "parent": found.parent}
    return names | {"kind": type(found.facts).__name__} | node_facts(found.facts)


def node_facts(facts):
    if isinstance(facts, Device):
        types = {
            each.id: (each.name, each.device_api, each.available_instances)
            for each in facts.mdev_types
        }
        return {name: getattr(facts, name) for name in node_device.FIELDS} | {"mdev_types": types}
    if isinstance(facts, BridgeNode):
        return {"address": facts.address}
    if isinstance(facts, NetNode):
        return {"interface": facts.interface, "mac": facts.mac, "features": set(facts.features)}
    if isinstance(facts, VdpaNode):
        return {"chardev": facts.chardev}
    return {"uuid": facts.uuid, "type": facts.type}


def capabilities(document):
    found = parse_capabilities(document)
    fields = {name: getattr(found, name) for name in ("host_uuid", "arch", "hyperthreading")}
    return fields | {
        "model": found.cpu_info["model"],
        "vendor": found.cpu_info["vendor"],
        "features": set(found.cpu_info["features"]),
        "cpus": found.cpus,
        "guests": set(found.guests),
        "cells": {each.id: cell(each) for each in parse_cells(document)},
    }


def cell(found):
    return {name: getattr(found, name) for name in ("cpus", "offline", "memory_mb", "sockets")} | {
        "siblings": set(found.siblings),
        "distances": dict(found.distances),
        "pages": dict(found.pages),
    }


def encryption(document):
    return {
        each.model: (each.cbitpos, each.reduced_phys_bits, each.contexts)
        for features in etree.fromstring(document).iterfind("features")
        for each in encryption_capacities(features, frozenset(), None)
    }


#: Of each kind of document, by its root: rtagent's reader and the oracle's.
READERS = {
    "device": (node, node_device.facts),
    "capabilities": (capabilities, host.capabilities),
    "domainCapabilities": (encryption, host.encryption),
}
FOLDERS = {(kind, folder): paths for kind in READERS for folder, paths in folders(kind).items()}


def answer(read, document, error):
    try:
        return read(document)
    except error:
        return REFUSED


@pytest.mark.parametrize(("kind", "folder"), FOLDERS)
def test_a_host_is_read_as_libvirt_documents_it(kind, folder, record_property):
    paths, (read, right) = FOLDERS[kind, folder], READERS[kind]

    def judge(document):
        text = ElementTree.tostring(document, encoding="unicode")
        return difference(answer(read, text, BadDocument), answer(right, document, Impossible))

    record_property(f"<{kind}>", len(paths))
    require_equal(paths, judge, READ)
