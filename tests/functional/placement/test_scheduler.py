"""The scheduler with a real Placement: what it selects is allocated, and the agents grant it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import token_endpoint
from msgspec.structs import replace

from rtagent import claims
from rtagent.conf.scheduler import SchedulerOptions
from rtagent.model.decision import Granted
from rtagent.model.device import MdevType
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest, Instance
from rtagent.model.server import RequestSpec, Selection, Selections
from rtagent.pci.specs import parse_aliases, parse_specs
from rtagent.placement.candidates import PlacementCandidates
from rtagent.scheduler.errors import ConsumerHasAllocations, NoValidHost
from rtagent.scheduler.host_state import HostState
from tests.functional.placement.conftest import PATIENCE, MirroredNode, connect
from tests.servers import Placement
from tests.support.device_states import VGPU_TYPE, device_host, policy
from tests.support.host_states import host_state
from tests.support.hosts import NOON, call, host, uid
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, VF_IDS, gpu, nic, record
from tests.support.scheduling import HostsInMemory, scheduler, spec

PF_1 = "0000:a0:00.0"
ALIASES = parse_aliases([json.dumps({"name": "vf", **VF_IDS, "device_type": "type-VF"})])
VF_CLASS = "CUSTOM_PCI_8086_154C"
DEVICES = {"resources:VGPU": "1", "pci_passthrough:alias": "vf:2"}
TYPES = (MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=2),)


def device_node() -> NodeState:
    """Return a node with two GPUs of two virtual ones each, and two cards of two functions each.

    Each cell has one of the cards. Three CPUs for pinning are in cell 1 only.
    """
    devices = record(
        [
            *(gpu(address, mdev_types=TYPES) for address in (GPU_0, GPU_1)),
            *(vf for cell, pf in enumerate((PF_0, PF_1)) for vf in tuple(nic(pf, 2, cell))[1:]),
        ]
    )
    reported = policy(
        parse_specs([json.dumps(VF_IDS)]), mdev_types=(VGPU_TYPE,), report_in_placement=True
    )
    return device_host(devices, pci=replace(reported, aliases=ALIASES))


class Cloud:
    """Hosts that are published in Placement, and the scheduler that knows them."""

    def __init__(self, server: Placement, path: Path, **states: NodeState) -> None:
        self.server = server
        self.nodes = {name: self._published(name, state, path) for name, state in states.items()}
        self.hosts = HostsInMemory(self._host(name) for name in states)
        self.port = PlacementCandidates(
            lambda: connect(token_endpoint.Token(server.url, server.token))
        )

    def _published(self, name: str, state: NodeState, path: Path) -> MirroredNode:
        directory = path / name
        directory.mkdir()
        node = MirroredNode(self.server, directory)
        node.state = replace(state, node=replace(node.state.node, host=name))
        node.start().sync_now(PATIENCE)
        return node

    def _host(self, name: str) -> HostState:
        state = self.nodes[name].state
        node = state.node
        known = host_state(name, state, nodename=node.hypervisor_hostname, uuid=node.uuid)
        return replace(known, replica=state)

    def select(self, wanted: RequestSpec, *owners: str, **more: Any) -> tuple[Selections, ...]:
        """Select hosts. :param port: instead of Placement's. :param options: of the scheduler."""
        others = more.pop("options", {})
        options = SchedulerOptions(pci_in_placement=True, aliases=ALIASES, **others)
        chosen = scheduler(self.hosts, options=options, placement=more.pop("port", self.port))
        return chosen.select_destinations(wanted, owners, **more)

    def granted(self, wanted: RequestSpec, owner: str, selection: Selection) -> bool:
        """Return whether the agent of the selected host grants the claim."""
        request = BuildRequest(
            instance=Instance(uuid=owner, flavor=wanted.flavor),
            allocations=selection.allocations,
            provider_mapping=selection.provider_mapping,
        )
        state = self.nodes[selection.host].state
        return isinstance(claims.instance_claim(state, call(), NOON, request), Granted)

    def allocated(self, consumer: str) -> dict[str, dict[str, int]]:
        """Return what Placement has for a consumer, by provider."""
        return self.server.allocations(consumer)

    def stop(self) -> None:
        stopped = [mirror.stop(PATIENCE) for node in self.nodes.values() for mirror in node.mirrors]
        assert all(stopped)


@pytest.fixture
def cloud(server: Placement, tmp_path: Path) -> Iterator[Cloud]:
    """Two hosts: cn1 has devices, cn2 has more memory."""
    server.start()
    cloud = Cloud(server, tmp_path, cn1=device_node(), cn2=host(cpu_allocation_ratio=2))
    yield cloud
    cloud.stop()


def test_an_instance_with_devices_gets_what_a_candidate_has(cloud):
    wanted, owner = spec(1, 512, extra_specs=DEVICES, project_id="p", user_id="u"), uid()
    [found] = cloud.select(wanted, owner, alternates=True)
    selected = found.selected
    assert (selected.host, found.alternates) == ("cn1", ())
    allocated = cloud.allocated(owner)
    assert allocated == {uuid: dict(a.resources) for uuid, a in selected.allocations.items()}
    classes = [name for part in allocated.values() for name in part]
    assert {"VCPU", "MEMORY_MB", "DISK_GB", "VGPU", VF_CLASS} == set(classes)
    assert sorted(selected.provider_mapping) == ["vf-0", "vf-1"]
    assert cloud.granted(wanted, owner, selected)
    claim = cloud.hosts.assumed[selected.operation_id]
    assert claim.allocations == selected.allocations
    assert {device.provider for device in claim.pci} <= allocated.keys()


def test_an_alias_may_be_named_twice(cloud):
    request, owner = spec(1, 512, extra_specs={"pci_passthrough:alias": "vf:1,vf:1"}), uid()
    [selections] = cloud.select(request, owner)
    assert len(selections.selected.provider_mapping) == 2
    assert cloud.granted(request, owner, selections.selected)


def test_an_alternate_has_a_candidate_that_is_not_written(cloud):
    wanted, owner = spec(1, 512), uid()
    [found] = cloud.select(wanted, owner, alternates=True)
    [other] = found.alternates
    assert {found.selected.host, other.host} == {"cn1", "cn2"}
    assert list(cloud.allocated(owner)) == [found.selected.provider_uuid]
    assert other.allocation_request["allocations"].keys() == {other.provider_uuid}
    assert other.allocation_request_version == "1.38"
    assert cloud.granted(wanted, owner, other)


def test_nothing_remains_in_placement_of_a_request_that_finds_too_few_hosts(cloud):
    owners = [uid() for _ in range(3)]
    with pytest.raises(NoValidHost):
        cloud.select(spec(2, 512, extra_specs={"hw:cpu_policy": "dedicated"}), *owners, uid())
    with pytest.raises(NoValidHost, match="placement refused 1"):
        cloud.select(spec(1, 512, extra_specs=DEVICES), *owners)
    assert [cloud.allocated(owner) for owner in owners] == [{}, {}, {}]
    assert not cloud.hosts.assumed


class LastFirst:
    """Placement, which lists its candidates in the opposite order."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    @contextmanager
    def allocation_candidates(self, query: Any, timeout: float) -> Any:
        with self._cloud.port.allocation_candidates(query, timeout) as found:
            yield replace(found, requests=found.requests[::-1])


def test_a_move_needs_the_instances_allocations_moved_to_the_migration(cloud):
    wanted, owner = spec(1, 512), uid()
    [at] = cloud.select(wanted, owner)
    before = cloud.allocated(owner)
    away = replace(wanted, ignore_hosts=(at.selected.host,))
    with pytest.raises(ConsumerHasAllocations, match=owner):
        cloud.select(replace(away, purpose="resize"), owner)
    assert cloud.allocated(owner) == before

    # The source of an evacuation cannot be asked, so its part remains the instance's.
    [to] = cloud.select(replace(away, purpose="evacuation"), owner)
    both = {at.selected.provider_uuid, to.selected.provider_uuid}
    assert cloud.allocated(owner).keys() == both
    with pytest.raises(NoValidHost):  # and what was there before comes back if that fails
        cloud.select(spec(9, 512, purpose="evacuation"), owner)
    assert cloud.allocated(owner).keys() == both


def test_a_repeated_build_replaces_what_a_lost_answer_has_left(cloud):
    wanted, owner = spec(1, 512), uid()
    [first] = cloud.select(wanted, owner)
    cloud.hosts.forget_claim(first.selected.operation_id)
    [second] = cloud.select(replace(wanted, ignore_hosts=(first.selected.host,)), owner)
    assert list(cloud.allocated(owner)) == [second.selected.provider_uuid]


def test_a_candidate_that_the_agent_would_refuse_is_passed_over(cloud):
    specs = {
        "hw:cpu_policy": "dedicated",
        "pci_passthrough:alias": "vf:2",
        "hw:pci_numa_affinity_policy": "required",
    }
    wanted, owner = spec(3, 512, extra_specs=specs), uid()
    for port in (cloud.port, LastFirst(cloud)):  # in one of the orders, the first is refused
        [found] = cloud.select(wanted, owner, port=port, claim=False)
        assert cloud.granted(wanted, owner, found.selected)
    assert cloud.allocated(owner) == {}, "without a claim nothing is written"


def test_an_explanation_has_the_hosts_without_candidates_and_writes_nothing(cloud):
    options = SchedulerOptions(pci_in_placement=True, aliases=ALIASES)
    chooser = scheduler(cloud.hosts, options=options, placement=cloud.port)
    before = len(cloud.server.requests())
    found = chooser.explain(spec(1, 512, extra_specs=DEVICES))
    first, second = found.hosts
    assert (first.host, first.rank) == ("cn1", 1)
    assert [each.filter for each in second.objections][:1] == ["placement"]
    assert {each.method for each in cloud.server.requests()[before:]} == {"GET"}
