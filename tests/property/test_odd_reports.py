"""Reports that decode and make no sense: readers of the view work, and other hosts are unharmed."""

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent.model.assignment import AssignedResource, Assignment, CellAssignment
from rtagent.model.device import AssignedDevice
from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.model.host_report import CellUsage, HostUsage, InstanceInfo, ResourcePool, UsedQuantity
from rtagent.ports import NullReporter
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.report_documents import SyncInstanceInfo
from tests.support.host_states import fleet_node
from tests.support.hosts import PINNED, ManualClock, host, request, uid
from tests.support.pci_hosts import PF_0, vf
from tests.support.reporting_agents import ReportingAgent, assumable, deliver

NODE = fleet_node(4)


def tuples(values: st.SearchStrategy[Any], most: int | None = None) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=most).map(tuple)


numbers = st.sampled_from([0, 1, 2, 7, 99, 2**31 - 1, 2**53 - 1])
small = st.integers(0, 60)
addresses = st.sampled_from([vf(0), vf(1), PF_0, "0000:99:00.0", "", "nonsense"])
names = st.sampled_from(["", "VGPU", "CUSTOM_X", "nonsense"])
cells = st.builds(
    CellUsage,
    id=st.integers(0, 4),
    vcpus=numbers,
    memory_mb=numbers,
    pages=st.dictionaries(st.sampled_from([4, 2048, 3, 1048576]), numbers, max_size=2),
)
usages = st.builds(
    HostUsage,
    vcpus=numbers,
    pcpus=numbers,
    memory_mb=numbers,
    disk_mb=numbers,
    pinned=st.dictionaries(small, st.integers(1, 3), max_size=4),
    kept=st.dictionaries(small, st.integers(1, 3), max_size=4),
    cells=tuples(cells, 3),
    quantities=tuples(
        st.builds(UsedQuantity, suffix=names, resource_class=names, quantity=numbers), 2
    ),
    devices=tuples(addresses, 3),
    mdev_parents=tuples(addresses, 2),
    resources=tuples(names, 2),
    former_pools=tuples(st.builds(ResourcePool, provider=addresses, resource_class=names), 2),
)
counters = st.dictionaries(
    st.sampled_from(["num_instances", "num_vm_building", "", "io_workload", "num_task_None"]),
    st.integers(0, 2**31 - 1),
)
guest_cells = st.builds(
    CellAssignment,
    id=st.integers(-1, 4),
    memory=st.integers(-5, 10**6),
    cpuset=st.frozensets(small, max_size=2),
    cpu_pinning=st.dictionaries(small, small, max_size=2),
    cpuset_kept=st.frozensets(small, max_size=2),
    pagesize=st.none() | st.sampled_from([3, 2048]),
)
ids = dict.fromkeys(("vendor_id", "product_id", "dev_type", "request_id"), names)
claims = st.builds(
    lambda at, fields: replace(
        list(NODE.claims.values())[at],
        **{**fields, "uuid": uid(at + 500), "owner_id": uid(700 + at % 2)},
    ),
    st.integers(0, 3),
    st.fixed_dictionaries(
        {},
        optional={
            "vcpus": st.integers(-5, 100),
            "pcpus": st.integers(-5, 100),
            "memory_mb": st.integers(-5, 10**6),
            "disk_mb": st.integers(-5, 10**9),
            "state": st.sampled_from(["building", "active", "incoming", "released", "odd"]),
            "kind": st.sampled_from(["build", "resize", "attach", "odd"]),
            "migration_uuid": st.sampled_from([None, uid(9)]),
            "numa_topology": st.builds(Assignment, cells=tuples(guest_cells)),
            "pci": tuples(st.builds(AssignedDevice, address=addresses, **ids), 2),
            "resources": tuples(
                st.builds(
                    AssignedResource,
                    resource_class=names,
                    identifier=names,
                    parent_addr=st.none() | addresses,
                ),
                2,
            ),
        },
    ),
)
domains = st.none() | st.builds(
    DomainUsage,
    domain_uuid=st.just(uid(700)),
    name=names,
    active=st.booleans(),
    vcpus=st.integers(-5, 100),
    memory_mb=numbers,
    occupancy=st.builds(
        Occupancy,
        pcpus=st.frozensets(small, max_size=2),
        devices=st.frozensets(addresses, max_size=2),
        mdevs=st.frozensets(names, max_size=1),
        mdev_parents=st.frozensets(addresses, max_size=1),
        namespaces=st.frozensets(names, max_size=1),
    ),
)
infos = st.lists(
    st.builds(
        InstanceInfo,
        uuid=st.sampled_from([uid(700), uid(701)]),
        here=st.booleans(),
        claims=tuples(claims, 3),
        domain_usage=domains,
    ),
    max_size=3,
)
#: Requests that a selection could make: plain, pinned, with a device.
REQUESTS = (
    request(1, 64, 1),
    request(2, 64, owner=uid(700), extra_specs=PINNED),
    request(1, 64, owner=uid(701), extra_specs={"pci_passthrough:alias": "vf:1"}),
)


def read(manager: HostManager, seen: HostState) -> None:
    """Read what filters, weighers, selections and the read API read."""
    assert seen.numa_topology is not None
    list(seen.pci_stats)
    for uuid in seen.instances:
        assert seen.instances[uuid].uuid == uuid
    for asked in REQUESTS:
        owner = asked.instance.uuid
        fresh = replace(asked, instance=replace(asked.instance, uuid=uid()))
        assumable(manager.replica_for(seen, uid()), fresh)
        manager.replica_for(seen, owner)


@given(usages, counters, st.none() | st.integers(-(2**31), 2**31), infos, st.booleans())
def test_odd_reports_harm_no_reader(usage, counted, least, listed, names_claims):
    clock = ManualClock()
    manager = HostManager(clock, NullReporter(), lambda _: None)
    good, odd = ReportingAgent("good", fleet_node()), ReportingAgent("odd", NODE)
    deliver(manager, *good.messages(), *odd.messages())
    message = SyncInstanceInfo(host="odd", node_uuid=odd.uuid, epoch=1, revision=2, digest="")
    manager.change_instances(message, tuple(listed))
    uuids = tuple({claim.uuid for info in listed for claim in info.claims})
    claims = uuids if names_claims else ()
    report = odd.host_report(
        revision=50, usage=usage, counters=counted, disk_available_least=least, claims=claims
    )
    manager.update_host_state(report)
    for seen in manager.get_all_host_states():
        read(manager, seen)
    chosen = assumable(host(), request(1, 64, owner=uid(700)))
    assert chosen is not None
    after = manager.assume(odd.uuid, replace(chosen, node_uuid=odd.uuid), here=True)
    read(manager, after)
    clock.advance(timedelta(minutes=2).total_seconds())
    manager.tick()
    deliver(manager, *good.answer(), *odd.answer())
    found = {each.uuid: each for each in manager.get_all_host_states()}
    assert found[good.uuid].vcpus_used == 0
    assert found[odd.uuid].base.revision in (50, odd.state.revision)
