"""Hosts as the scheduler sees them, made from simulated nodes."""

from collections.abc import Iterable, Iterator
from functools import cache
from uuid import NAMESPACE_DNS, uuid5

from msgspec.structs import replace

from rtagent.model.device import SRIOV_VF, PciDevices
from rtagent.model.host_report import InstanceInfo, ServiceState
from rtagent.model.metric import Metric
from rtagent.model.node import Aggregate, Node
from rtagent.model.node_state import NodeState
from rtagent.model.policy import NumaPolicy, PciPolicy
from rtagent.model.request import BuildRequest
from rtagent.model.topology import Cell
from rtagent.scheduler.host_state import HostState, replica_fields
from tests.support.device_states import with_builds
from tests.support.hosts import host, request
from tests.support.numa_hosts import LARGE, cell, topology
from tests.support.pci_hosts import ALIASES, PF_0, PF_1, nic, record

#: The monotonic time of the last message of every host that these builders make.
SEEN = 1000.0


def node_named(name: str) -> Node:
    """Return a node with this host name. Equal names are equal nodes."""
    uuid = str(uuid5(NAMESPACE_DNS, name))
    return Node(uuid=uuid, host=name, hypervisor_hostname=f"{name}.example", host_ip="::1")


def host_state(
    name: str = "cn1",
    state: NodeState | None = None,
    *,
    instances: Iterable[str | InstanceInfo] = (),
    aggregates: Iterable[Aggregate] = (),
    service: ServiceState | None = None,
    metrics: Iterable[Metric] = (),
    **fields: object,
) -> HostState:
    """Make a host: by default with 8 CPUs, 16 GB and 100 GB of disk, all free.

    :param state: the node's state; `hosts.host` and `hosts.with_claims` make some.
    :param instances: instances on the host, or only their uuids.
    :param fields: any field of `HostState`, to be replaced.
    """
    replica = replace(state if state is not None else host(), node=node_named(name))
    infos = (InstanceInfo(uuid=each) if isinstance(each, str) else each for each in instances)
    listed = {info.uuid: info for info in infos}
    made = HostState(
        **replica_fields(replica),
        base=replica.position,
        version=1,
        seen=SEEN,
        service=service or ServiceState(),
        aggregates=tuple(sorted(aggregates, key=lambda each: each.uuid)),
        instances=listed,
        instance_uuids=frozenset(listed),
        instances_here=frozenset(uuid for uuid, info in listed.items() if info.here),
        metrics=tuple(metrics),
    )
    return replace(made, **fields)


def aggregate(name: str, *hosts: str, **metadata: str) -> Aggregate:
    """Make an aggregate of these hosts."""
    return Aggregate(
        uuid=str(uuid5(NAMESPACE_DNS, name)), name=name, metadata=metadata, hosts=tuple(hosts)
    )


#: Of each cell of a host of the fleet: 24 CPUs, of which 8 are shared.
_CPUS, _SHARED = 24, 8


def fleet_node(guests: int = 0) -> NodeState:
    """Make a host with two cells of 16 dedicated and 8 shared CPUs, 32 GiB in 2 MiB pages and 32
    virtual functions in two pools.

    :param guests: of every four, two are plain, one is pinned and has 2 MiB pages, and one is
        pinned and has a virtual function. At most 32.
    """
    there = replace(
        topology(*(_cell(number) for number in (0, 1))),
        disk_mb=2000 * 1024,
        hypervisor_type="QEMU",
        hypervisor_version=8002002,
        cpu_info={"arch": "x86_64", "vendor": "AMD", "model": "EPYC", "features": ["svm"]},
        supported_hv_specs=(("x86_64", "kvm", "hvm"), ("x86_64", "qemu", "hvm")),
    )
    shared = frozenset(cpu for cpu in there.cpus if cpu % _CPUS < _SHARED)
    numa = NumaPolicy(cpu_shared_set=shared, cpu_dedicated_set=there.cpus - shared)
    devices = (*nic(PF_0, 16, 0), *nic(PF_1, 16, 1))
    state = replace(
        host(there, cpu_allocation_ratio=4.0, numa=numa, pci=PciPolicy(aliases=ALIASES)),
        node=node_named("fleet"),
        devices=PciDevices(record(each for each in devices if each.dev_type == SRIOV_VF)),
    )
    return with_builds(state, *map(_guest, range(guests)))


def fleet(number: int, guests: int = 20) -> tuple[HostState, ...]:
    """Make this many hosts of `fleet_node`. Every host has instances of its own."""
    return tuple(_hosts(number, guests))


def _hosts(number: int, guests: int) -> Iterator[HostState]:
    state = _full(guests)
    for index in range(number):
        name = f"cn{index}"
        instances = (str(uuid5(NAMESPACE_DNS, f"{name}-{guest}")) for guest in range(guests))
        yield host_state(name, state, instances=instances)


# Equal hosts share what does not depend on their names, as hosts with equal descriptions do.
_full = cache(fleet_node)


def _cell(number: int) -> Cell:
    plain = cell(number, _CPUS // 2, memory_mb=64 * 1024, huge={LARGE: 8192})
    return replace(plain, distances={number: 10, 1 - number: 20})


def _guest(number: int) -> BuildRequest:
    pinned = {"hw:cpu_policy": "dedicated"}
    specs = {
        0: pinned | {"hw:mem_page_size": "2MB"},
        1: pinned | {"pci_passthrough:alias": "vf:1"},
    }.get(number % 4, {})
    facts = {"project_id": "p", "vm_state": "active"}
    return request(2, 1024, 10, instance=facts, flavorid=f"f{number % 4}", extra_specs=specs)
