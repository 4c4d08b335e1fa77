"""Guests of libvirt: what they claim, and their documents."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from lxml import etree
from msgspec.structs import replace

from rtagent.errors import InvalidFlavor
from rtagent.model.assignment import AssignedResource, PmemNamespace
from rtagent.model.claim import Claim
from rtagent.model.device import STANDARD, AssignedDevice
from rtagent.model.guest import GuestDomain
from rtagent.model.request import Image
from rtagent.numa.fit import Fitted
from rtagent.numa.host_cells import HostCells
from rtagent.virt.libvirt import guest
from tests.support.claims import pinned_claim
from tests.support.hosts import uid
from tests.support.numa_hosts import HUGE, LARGE, cell, fit_guest, flavor, host, required, topology
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS

SCHEMA = etree.RelaxNG(etree.parse("/usr/share/libvirt/schemas/domain.rng"))
#: Two cells of eight cores of two threads each, of them two cores shared; pages of all sizes.
WHERE = host(
    topology(*(cell(n, cores=8, huge={LARGE: 1024, HUGE: 2}) for n in range(2))),
    dedicated="4-15,20-31",
    shared="0-3,16-19",
)


def granted(vcpus: int = 4, memory_mb: int = 2048, where: HostCells = WHERE, **specs: str) -> Claim:
    """Fit a flavor with these extra specs; return its claim."""
    answer = fit_guest(required(vcpus, memory_mb, **specs), where)
    assert isinstance(answer, Fitted), str(answer)
    asked = flavor(vcpus, memory_mb, **specs)
    return replace(pinned_claim(), flavor=asked, numa_topology=answer.assignment)


def applied(claim: Claim, *attached: Claim, domain: str | None = None) -> str:
    """Merge claims into a domain document, by default a plain one. The result is a valid one."""
    document = guest.apply(domain or plain_domain(), claim, attached)
    SCHEMA.assertValid(etree.fromstring(document))
    return document


_CHOICES = {
    "cpu_policy": (None, "dedicated", "mixed"),
    "cpu_thread_policy": (None, "isolate", "require"),
    "emulator_threads_policy": (None, "share", "isolate"),
    "cpu_realtime": (None, "yes"),
    "mem_page_size": (None, "small", "large", "2MB"),
    "numa_nodes": (None, "2"),
    "locked_memory": (None, "yes"),
}


def combinations() -> Iterator[dict[str, str]]:
    """Yield the extra specs of each combination that is valid."""
    for values in itertools.product(*_CHOICES.values()):
        specs = {name: value for name, value in zip(_CHOICES, values, strict=True) if value}
        if "cpu_realtime" in specs:
            specs["cpu_realtime_mask"] = "^0"
        elif specs.get("cpu_policy") == "mixed":
            specs["cpu_dedicated_mask"] = "^0-1"
        try:
            required(4, 2048, **specs)
        except InvalidFlavor:
            continue
        yield specs


def enacting(domain: str, *claims: Mapping[str, Any]) -> str:
    """Return a domain document with the elements of claims in place of its own.

    :param claims: replies of an agent; their devices are added.
    """
    root = etree.fromstring(domain)
    for claim in claims:
        for child in etree.fromstring(f"<guest>{claim['guest']}</guest>"):
            present = root.find(child.tag)
            if present is None:
                root.append(child)
            elif child.tag == "devices":
                present.extend(list(child))
            else:
                root.replace(present, child)
    return etree.tostring(root, encoding="unicode")


def plain_domain(kind: str = "qemu", vcpus: int = 1, memory_mb: int = 2048) -> str:
    """Return a domain document as a caller makes it, without what a claim decides."""
    return f"""
    <domain type='{kind}'>
      <name>guest</name>
      <uuid>11111111-2222-3333-4444-555555555555</uuid>
      <metadata><of:note xmlns:of='http://example.org/of'>kept</of:note></metadata>
      <memory unit='MiB'>{memory_mb}</memory>
      <vcpu>{vcpus}</vcpu>
      <os><type arch='x86_64'>hvm</type><boot dev='hd'/></os>
      <features><acpi/></features>
      <on_poweroff>destroy</on_poweroff>
      <devices><memballoon model='none'/></devices>
    </domain>
    """


GPU = AssignedDevice(address=GPU_0, dev_type=STANDARD, request_id="gpu", numa_node=0, **GPU_IDS)
FAR = replace(GPU, address=GPU_1, numa_node=1)


def seats(document: str) -> dict[str, tuple[int, int] | None]:
    """Return guest cell and slot of each device, by the bus of its host address."""
    domain = etree.fromstring(document)
    controllers = {int(c.get("index")): c for c in domain.iterfind("devices/controller")}
    found: dict[str, tuple[int, int] | None] = {}
    for device in domain.iterfind("devices/hostdev"):
        bus = str(device.find("source/address").get("bus"))
        address = device.find("address")
        if address is None:
            found[bus] = None
            continue
        port = controllers[int(address.get("bus"), 16)]
        bridge = controllers[int(port.find("address").get("bus"), 16)]
        node = int(bridge.findtext("target/node"))
        found[bus] = (node, int(port.find("address").get("slot"), 16))
    return found


def namespace(number: int, size_mb: int) -> PmemNamespace:
    """Return a namespace of the host, like ``ns0`` with ``/dev/dax0.0``."""
    path = f"/dev/dax{number}.0"
    return PmemNamespace(name=f"ns{number}", path=path, size_kb=size_mb * 1024, align_kb=2048)


def with_namespaces(claim: Claim, *sizes_mb: int) -> Claim:
    """Return the claim with namespaces of these sizes."""
    found = (namespace(number, size) for number, size in enumerate(sizes_mb))
    units = (
        AssignedResource(
            resource_class="CUSTOM_PMEM_NAMESPACE_4GB", identifier=each.name, namespace=each
        )
        for each in found
    )
    return replace(claim, resources=tuple(units))


#: A mediated device of a simulated host with one shared GPU.
VGPU = AssignedResource(
    parent_addr="0000:48:00.0", resource_class="VGPU", identifier="0000:48:00.0/nvidia-222/0"
)


def guest_domain(
    *cpus: int,
    memory_mb: int = 64,
    name: str | None = None,
    owner: str | None = None,
    resources: tuple[AssignedResource, ...] = (),
    document: str | None = None,
    **properties: str,
) -> GuestDomain:
    """Return a domain pinned to these CPUs; without any, its claim assigns nothing.

    :param properties: of the image.
    """
    claim: Claim = pinned_claim(*cpus, owner=owner or uid(), memory_mb=memory_mb)
    if not cpus:
        claim = replace(claim, numa_topology=None)
    claim = replace(claim, resources=resources, image=Image(properties=properties))
    return GuestDomain(
        uuid=claim.owner_id,
        name=name or claim.owner_id,
        claim=claim,
        guest=guest.xml(claim),
        node_devices=guest.node_devices(claim),
        document=document,
    )
