"""A connection to libvirt with node devices, and the errors that libvirt raises about them."""

from __future__ import annotations

import libvirt


class Node:
    """A device as libvirt's binding shows it; `document` may be an error to raise."""

    def __init__(self, document):
        self.document = document
        self.called = document.partition("<name>")[2].partition("</name>")[0]
        self.reads = 0
        self.hangs = None

    def name(self):
        return self.called

    def XMLDesc(self, flags):
        self.reads += 1
        if self.hangs is not None:
            self.hangs.wait()
        if isinstance(self.document, Exception):
            raise self.document
        return self.document


class Libvirt:
    """A connection with devices, which counts listings and reads."""

    def __init__(self, *documents):
        self.nodes = {node.called: node for node in map(Node, documents)}
        self.alive = True
        self.listings = 0
        self.refusal = None
        self.on_listing = lambda: None

    def listAllDevices(self, flags):
        self.listings += 1
        if self.refusal is not None:
            raise self.refusal
        self.on_listing()
        return list(self.nodes.values())

    def add(self, document):
        node = Node(document)
        self.nodes[node.called] = node

    def getLibVersion(self):
        return 9000000

    def isAlive(self):
        return self.alive

    @property
    def reads(self):
        return {name: node.reads for name, node in self.nodes.items()}


def raised(call):
    """Return the error that libvirt itself raises."""
    connection = libvirt.open("test:///default")
    try:
        call(connection)
    except libvirt.libvirtError as error:
        return error
    finally:
        connection.close()
    raise AssertionError


def gone():
    return raised(lambda virt: virt.nodeDeviceLookupByName("nowhere"))


def unsupported():
    return raised(lambda virt: virt.getSysinfo(1 << 30))
