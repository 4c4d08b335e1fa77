"""Documents of node devices, as libvirt writes them."""

import libvirt

NAMES = ("domain", "bus", "slot", "function")


def _fields(address: str) -> list[str]:
    return address.replace(".", ":").split(":")


def _address(address: str) -> str:
    fields = zip(NAMES, _fields(address), strict=True)
    return "<address " + " ".join(f"{name}='0x{digits}'" for name, digits in fields) + "/>"


def pci_name(address: str) -> str:
    return "pci_" + "_".join(_fields(address))


def pci(
    address: str,
    vendor: str = "8086",
    product: str = "1583",
    *,
    pf: str | None = None,
    more: str = "",
    behind: str | None = None,
) -> str:
    """:param behind: the address of the bridge above it."""
    fields = zip(NAMES, _fields(address), strict=True)
    numbers = "".join(f"<{name}>{int(digits, 16)}</{name}>" for name, digits in fields)
    parent = f"<capability type='phys_function'>{_address(pf)}</capability>" if pf else ""
    return (
        f"<device><name>{pci_name(address)}</name>"
        f"<parent>{pci_name(behind) if behind else 'computer'}</parent>"
        f"<capability type='pci'>{numbers}<product id='0x{product}'/><vendor id='0x{vendor}'/>"
        f"{parent}{more}</capability></device>"
    )


def bridge(address: str, behind: str | None = None) -> str:
    return pci(address, "1b36", "000c", more="<capability type='pci-bridge'/>", behind=behind)


def gpu(address: str, free: int = 4) -> str:
    types = (
        "<capability type='mdev_types'><type id='nvidia-11'><name>GRID</name>"
        "<deviceAPI>vfio-pci</deviceAPI>"
        f"<availableInstances>{free}</availableInstances></type></capability>"
    )
    return pci(address, "10de", "13f1", more=types)


def net(interface: str, mac: str | None, parent: str) -> str:
    address = f"<address>{mac}</address>" if mac else ""
    return (
        f"<device><name>net_{interface}</name><parent>{parent}</parent><capability type='net'>"
        f"<interface>{interface}</interface>{address}<link state='up'/>"
        "<feature name='tx'/><feature name='rx'/></capability></device>"
    )


def vdpa(chardev: str, parent: str) -> str:
    return (
        f"<device><name>vdpa_vdpa0</name><parent>{parent}</parent><capability type='vdpa'>"
        f"<chardev>{chardev}</chardev></capability></device>"
    )


def mdev(uuid: str, type_: str, parent: str) -> str:
    return (
        f"<device><name>mdev_{uuid.replace('-', '_')}</name><parent>{parent}</parent>"
        f"<capability type='mdev'><type id='{type_}'/><iommuGroup number='12'/>"
        f"<uuid>{uuid}</uuid></capability></device>"
    )


class Node:
    """A device as libvirt's binding shows it; `document` may be an error to raise."""

    def __init__(self, document):
        self.document = document
        self.called = document.partition("<name>")[2].partition("</name>")[0]
        self.reads = 0

    def name(self):
        return self.called

    def XMLDesc(self, flags):
        self.reads += 1
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
