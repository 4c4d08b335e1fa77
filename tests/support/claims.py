"""Claims with pinned CPUs, and what runs without a claim: domains, and requests to adopt them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rtagent.model.assignment import AssignedResource, Assignment, CellAssignment
from rtagent.model.claim import Claim
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.device import STANDARD, AssignedDevice, Device
from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.model.guest import AdoptRequest, GuestLayout
from rtagent.model.node_state import NodeState
from rtagent.model.request import Flavor, Instance, InstanceFacts
from rtagent.virt.libvirt.document import HostFacts
from rtagent.virt.libvirt.guest_layout import parse_layout
from tests.support.device_states import PMEM
from tests.support.hosts import NODE, NOON, uid, with_claims
from tests.support.pci_hosts import GPU_IDS


def pinned_claim(
    *cpus: int,
    kept: tuple[int, ...] = (),
    owner: str | None = None,
    name: str | None = None,
    cell: int = 0,
    memory_mb: int = 1024,
    pagesize: int | None = None,
) -> Claim:
    """An active claim whose guest cell is pinned to these CPUs."""
    placed = CellAssignment(
        id=cell,
        memory=memory_mb,
        cpu_pinning=dict(enumerate(cpus)),
        cpuset_kept=frozenset(kept),
        pagesize=pagesize,
    )
    return Claim(
        uuid=uid(),
        host=NODE.host,
        node=NODE.hypervisor_hostname,
        node_uuid=NODE.uuid,
        owner_id=owner or uid(),
        state="active",
        vcpus=0,
        pcpus=len(cpus),
        memory_mb=memory_mb,
        disk_mb=0,
        created_at=NOON,
        updated_at=NOON,
        revision=0,
        instance=InstanceFacts(display_name=name),
        flavor=Flavor(vcpus=max(1, len(cpus)), memory_mb=memory_mb),
        numa_topology=Assignment(cells=(placed,)),
    )


def stated(
    owner: str | None = None,
    *,
    cpus: Iterable[int] = (),
    devices: Iterable[str | AssignedDevice] = (),
    namespaces: Iterable[str] = (),
    resources: Iterable[AssignedResource] = (),
    flavor: Mapping[str, Any] | None = None,
    memory_mb: int = 1024,
    **more: Any,
) -> AdoptRequest:
    """Return a request for a guest with one vCPU for each of these host CPUs, or else one.

    :param devices: addresses of GPUs, or devices. :param more: other fields of the request.
    """
    pinning = dict(enumerate(cpus))
    cell = CellAssignment(
        id=min(pinning.values(), default=0) // 4, memory=memory_mb, cpu_pinning=pinning
    )
    size = {"vcpus": max(1, len(pinning)), "memory_mb": memory_mb, **(flavor or {})}
    return AdoptRequest(
        instance=Instance(uuid=owner or uid(), flavor=Flavor(**size)),
        numa_topology=Assignment(cells=(cell,)) if pinning else None,
        devices=tuple(given(each) if isinstance(each, str) else each for each in devices),
        resources=(*map(_namespace, namespaces), *resources),
        **more,
    )


def given(address: str, ids: Mapping[str, str] = GPU_IDS, **more: Any) -> AssignedDevice:
    """Return a device as a caller states it."""
    fields = {"dev_type": STANDARD, "request_id": "r", **ids, **more}
    return AssignedDevice(address=address, **fields)


def assigned(device: Device, request_id: str, **more: Any) -> AssignedDevice:
    """Return a device of the host as a claim has it."""
    names = ("address", "vendor_id", "product_id", "dev_type", "numa_node", "parent_addr")
    fields = {name: getattr(device, name) for name in names}
    return AssignedDevice(request_id=request_id, **fields, **more)


def _namespace(name: str) -> AssignedResource:
    return AssignedResource(resource_class=PMEM.resource_class, identifier=name)


NOVA = "http://openstack.org/xmlns/libvirt/nova/1.1"


def metadata(
    name: str = "web-1",
    *,
    vcpus: int = 2,
    memory_mb: int = 1024,
    swap_mb: int = 512,
    extra_specs: Mapping[str, str] | None = None,
    volume: bool = False,
) -> str:
    """Return Nova's metadata of a server."""
    specs = "".join(
        f"<nova:extraSpec name='{key}'>{value}</nova:extraSpec>"
        for key, value in (extra_specs or {}).items()
    )
    root = "" if volume else "<nova:root type='image' uuid='1b0c'/>"
    return f"""<metadata><nova:instance xmlns:nova='{NOVA}'>
      <nova:package version='32.0.0'/><nova:name>{name}</nova:name>
      <nova:flavor name='m1.web' id='f-7'>
        <nova:memory>{memory_mb}</nova:memory><nova:disk>10</nova:disk>
        <nova:swap>{swap_mb}</nova:swap><nova:ephemeral>0</nova:ephemeral>
        <nova:vcpus>{vcpus}</nova:vcpus><nova:extraSpecs>{specs}</nova:extraSpecs>
      </nova:flavor>
      <nova:image uuid='1b0c'><nova:properties>
        <nova:property name='hw_machine_type'>q35</nova:property></nova:properties></nova:image>
      <nova:owner><nova:user uuid='u-1'>admin</nova:user>
        <nova:project uuid='p-1'>web</nova:project></nova:owner>{root}
    </nova:instance></metadata>"""


def pinned_parts(cell: int, cpus: Sequence[int], memory_mb: int, pages_kb: int = 0) -> str:
    """Return the elements of a guest with one cell on a host cell, a vCPU on each of the CPUs."""
    pins = "".join(f"<vcpupin vcpu='{n}' cpuset='{cpu}'/>" for n, cpu in enumerate(cpus))
    pages = f"<hugepages><page size='{pages_kb}' unit='KiB' nodeset='0'/></hugepages>"
    vcpus = format_cpu_spec(range(len(cpus)))
    return f"""{f"<memoryBacking>{pages}</memoryBacking>" if pages_kb else ""}
      <cputune>{pins}<emulatorpin cpuset='{format_cpu_spec(cpus)}'/></cputune>
      <numatune><memory mode='strict' nodeset='{cell}'/>
        <memnode cellid='0' mode='strict' nodeset='{cell}'/></numatune>
      <cpu><numa><cell id='0' cpus='{vcpus}' memory='{memory_mb}' unit='MiB'/></numa></cpu>"""


def hostdev(address: str, tag: str = "hostdev") -> str:
    """Return the element of a PCI device, or of a network interface (``interface``)."""
    domain, bus, rest = address.split(":")
    slot, function = rest.split(".")
    numbers = (
        f"domain='0x{domain}' bus='0x{bus}' slot='0x{slot}' function='0x{function}' type='pci'"
    )
    if tag == "interface":
        return f"<interface type='hostdev'><source><address {numbers}/></source></interface>"
    plain = numbers.removesuffix(" type='pci'")
    return f"<hostdev mode='subsystem' type='pci'><source><address {plain}/></source></hostdev>"


def domain_document(
    uuid: str, vcpus: int = 2, memory_mb: int = 1024, *parts: str, devices: str = ""
) -> str:
    """Return a whole domain document."""
    has_vcpu = any("<vcpu>" in part or "<vcpu " in part for part in parts)
    return (
        f"<domain type='test'><name>n-{uuid[-4:]}</name><uuid>{uuid}</uuid>"
        f"<memory unit='MiB'>{memory_mb}</memory>"
        f"{'' if has_vcpu else f'<vcpu>{vcpus}</vcpu>'}"
        f"<os><type>hvm</type></os>{''.join(parts)}<devices>{devices}</devices></domain>"
    )


def layout(
    document: str, uuid: str, online: frozenset[int], *, active: bool = True, **names: Any
) -> GuestLayout:
    """Return the layout of a domain with this document."""
    host = HostFacts(online=online, **names)
    usage = DomainUsage(
        domain_uuid=uuid, name=f"n-{uuid[-4:]}", active=active, vcpus=0, memory_mb=0
    )
    return parse_layout(document, usage, host)


def with_orphans(state: NodeState, *layouts: GuestLayout) -> NodeState:
    """Return a state in which an audit has recorded these domains. It records of one that is shut
    off that it is bound to nothing."""
    usages = [
        each.usage if each.usage.active else replace(each.usage, occupancy=Occupancy())
        for each in layouts
    ]
    found = with_claims(state, state.claims.values(), usages)
    return replace(found, devices=state.devices, resource_inventories=state.resource_inventories)
