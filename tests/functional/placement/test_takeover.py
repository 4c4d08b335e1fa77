"""An agent takes over a host that nova-compute has published: adoption, reshape, and faults."""

import itertools
import json
from pathlib import Path

import pytest
from keystoneauth1 import token_endpoint
from msgspec.structs import replace

from rtagent.model.device import MdevType
from rtagent.pci.specs import parse_specs
from rtagent.placement.synchroniser import ATTEMPTS
from tests.functional.placement.conftest import MirroredNode
from tests.functional.placement.takeovers import Agent, NovaCompute
from tests.servers import Placement
from tests.servers.http_relay import Fault, HttpRelay
from tests.support.device_states import VGPU_TYPE, audited, built, policy, running, seen
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS, VF_IDS, gpu, nic

MDEV = MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=4)
GPUS = (gpu(GPU_0, 0, mdev_types=(MDEV,)), gpu(GPU_1, 1, mdev_types=(MDEV,)))
VFS = tuple(nic(vfs=2))[1:]
GPU_CLASS, VF_CLASS = "CUSTOM_PCI_10DE_13F1", "CUSTOM_PCI_8086_154C"
#: The providers' names, without the host's.
VGPU_0, VGPU_1, CARD = "pci_0000_08_00_0", "pci_0000_88_00_0", "0000:20:00.0"
VGPUS_AND_VFS = policy(
    parse_specs([json.dumps(VF_IDS)]), mdev_types=(VGPU_TYPE,), report_in_placement=True
)
MANAGED = ("COMPUTE_MANAGED_PCI_DEVICE",)


@pytest.fixture
def nova(node: MirroredNode) -> NovaCompute:
    return NovaCompute(node)


@pytest.fixture
def agent(node: MirroredNode) -> Agent:
    agent = Agent(node)
    agent.host(*GPUS, *VFS, pci=VGPUS_AND_VFS)
    return agent


def claim_vgpu(agent: Agent, consumer: str, number: int = 1) -> str:
    """Claim virtual GPUs, and return the name of their provider."""
    specs = {"resources:VGPU": str(number)}
    agent.state, claim = built(agent.state, extra_specs=specs, owner=consumer)
    agent.state = running(agent.state, claim)
    (parent,) = {unit.parent_addr or "" for unit in claim.resources}
    return {GPU_0: VGPU_0, GPU_1: VGPU_1}[parent]


def claim_device(agent: Agent, consumer: str, alias: str = "vf:1") -> None:
    agent.state, claim = built(agent.state, alias, owner=consumer)
    agent.state = running(agent.state, claim)


def assert_idle(agent: Agent) -> None:
    """The last round succeeded, and another one sends nothing."""
    assert agent.mirror.error is None
    assert agent.requests() == []


# -- adoption --------------------------------------------------------------------------------------


def test_contents_of_adopted_children_are_replaced_and_custom_traits_kept(nova, agent):
    """nova-compute counted another class, and knew a trait that is no longer true."""
    nova.root()
    traits = ("HW_PCI_LIVE_MIGRATABLE", "CUSTOM_GOLD", *MANAGED)
    uuid = nova.child(CARD, {"CUSTOM_OLD_CLASS": 2}, traits)
    agent.start()
    assert_idle(agent)
    assert agent.inventories(uuid) == {VF_CLASS: (2, 0)}
    assert agent.traits(uuid) == {"OWNER_NOVA", "CUSTOM_GOLD", *MANAGED}


def test_inventories_of_the_root_that_nova_compute_set_are_withdrawn(node, nova, agent):
    nova.root(MEM_ENCRYPTION_CONTEXT=15, CUSTOM_PMEM_NAMESPACE_4GB=2, CUSTOM_LICENSE=5)
    agent.start()
    assert_idle(agent)
    assert agent.inventories(node.uuid).keys() == {
        "VCPU",
        "PCPU",
        "MEMORY_MB",
        "DISK_GB",
        "CUSTOM_LICENSE",
    }


def test_unwanted_children_of_nova_compute_are_withdrawn_and_those_of_others_stay(
    node, nova, agent
):
    nova.root()
    gone = nova.child("0000:09:00.0", {GPU_CLASS: 1}, MANAGED)
    in_use = nova.child("0000:0A:00.0", {GPU_CLASS: 1}, MANAGED)
    cyborg = nova.child("0000:0B:00.0", {"FPGA": 1}, ("OWNER_CYBORG",))
    neutron = nova.child("eth0", {"NET_BW_EGR_KILOBIT_PER_SEC": 1000})
    consumer = uid()
    nova.allocate(consumer, **{in_use: {GPU_CLASS: 1}})

    agent.start()

    assert agent.health[0] == "warn"
    assert gone not in agent.children.values()
    assert agent.inventories(in_use) == {GPU_CLASS: (1, 1)}
    assert agent.inventories(cyborg) == {"FPGA": (1, 0)}
    assert agent.inventories(neutron) == {"NET_BW_EGR_KILOBIT_PER_SEC": (1000, 0)}

    node.allocate(consumer, {})
    agent.turn()
    assert_idle(agent)
    assert in_use not in agent.children.values()


def test_devices_for_one_use_that_were_used_are_quarantined(nova, agent):
    """nova-compute reserves one from its use on, and never frees it."""
    addresses = [f"0000:{bus}:00.0" for bus in ("08", "09", "0a", "0b")]
    spec = parse_specs([json.dumps({**GPU_IDS, "one_time_use": "yes"})])
    pci = policy(spec, report_in_placement=True)
    agent.host(*(gpu(address) for address in addresses), pci=pci)
    agent.state, claim = built(agent.state, "gpu:1")
    claimed = claim.pci[0].address
    used, occupied, fresh = (each for each in addresses if each != claimed)
    nova.root()
    one = {GPU_CLASS: 1}
    uuids = {address: nova.child(address.upper(), one, MANAGED) for address in addresses}
    nova.allocate(uid(), **{uuids[occupied]: one})
    for address in (claimed, used, occupied):
        nova.reserve(uuids[address], one)

    agent.start()

    assert_idle(agent)
    assert [each for each in addresses if agent.state.devices[each].quarantine] == [used]
    assert agent.inventories(uuids[used]) == {GPU_CLASS: (1, 1)}
    assert agent.inventories(uuids[fresh]) == {GPU_CLASS: (1, 0)}


def test_a_wanted_name_of_another_service_is_an_error(nova, agent):
    nova.root()
    uuid = nova.child(CARD, {"FPGA": 1}, ("OWNER_CYBORG",))
    agent.start()
    status, why = agent.health
    assert status == "fail"
    assert f"resource provider delete {uuid}" in why
    assert agent.inventories(uuid) == {"FPGA": (1, 0)}


def test_a_device_that_changes_its_address_gets_a_provider_of_its_own(nova, agent):
    nova.root()
    uuid = nova.child(VGPU_0, {"VGPU": 4})
    agent.start()
    moved = gpu("0000:0a:00.0", 0, mdev_types=(MDEV,))
    agent.state = audited(agent.state, seen(agent.state, devices=(moved, *GPUS[1:], *VFS)))
    agent.start()
    assert_idle(agent)
    assert agent.children.keys() == {"pci_0000_0a_00_0", VGPU_1, CARD}

    agent.state = audited(agent.state, seen(agent.state, devices=(*GPUS, *VFS)))
    agent.turn()
    assert_idle(agent)
    assert agent.children[VGPU_0] == uuid


def test_a_state_directory_of_another_node_adopts_nothing_for_this_one(node, nova, agent, tmp_path):
    nova.root()
    uuid = nova.child(VGPU_0, {"VGPU": 4})
    agent.start()
    file = Path(node.state_path) / "placement-adopted.json"
    assert json.loads(file.read_text())["children"] == {VGPU_0: uuid}
    file.write_text(file.read_text().replace(node.uuid, uid()))
    agent.start()
    assert_idle(agent)
    assert json.loads(file.read_text())["node"] == node.uuid


# -- reshape ---------------------------------------------------------------------------------------


def test_devices_that_were_not_reported_get_the_allocations_of_their_claims(node, nova, agent):
    nova.root()
    guest, unknown = uid(), uid()
    claim_device(agent, guest)
    claim_device(agent, unknown)
    nova.allocate(guest, root={"VCPU": 1})

    agent.start()

    assert_idle(agent)
    card = agent.children[CARD]
    assert agent.allocations(guest) == {node.uuid: {"VCPU": 1}, card: {VF_CLASS: 1}}
    assert agent.allocations(unknown) == {}
    assert agent.inventories(card) == {VF_CLASS: (2, 0)}


def test_a_host_that_is_down_is_disabled_although_its_reshape_is_refused(node, nova, agent):
    nova.root(VGPU=8)
    consumer = uid()
    nova.allocate(consumer, root={"VCPU": 1, "VGPU": 1})
    before = agent.inventories(node.uuid), agent.traits(node.uuid)
    agent.start()
    assert (agent.inventories(node.uuid), agent.traits(node.uuid)) == before

    node.disabled = True
    agent.turn()
    disabled = {"COMPUTE_STATUS_DISABLED"}
    assert agent.health[0] == "fail"
    assert agent.traits(node.uuid) == before[1] | disabled
    assert all(request.method == "GET" for request in agent.requests())
    node.disabled = False
    agent.turn()
    assert (agent.inventories(node.uuid), agent.traits(node.uuid)) == before

    node.disabled = True
    agent.turn()
    claim_vgpu(agent, consumer)
    agent.turn()
    assert_idle(agent)
    assert disabled <= agent.traits(node.uuid)


def test_a_user_without_the_role_is_an_error_that_names_it(node, nova, agent):
    nova.root(VGPU=8)
    consumer = uid()
    claim_vgpu(agent, consumer)
    nova.allocate(consumer, root={"VGPU": 1})
    node.auth = token_endpoint.Token(node.server.url, "admin:without-role")
    agent.start()
    status, why = agent.health
    assert status == "fail"
    assert "role service" in why
    assert agent.inventories(node.uuid)["VGPU"] == (8, 0)


def test_allocations_of_moves_go_with_the_claims(node, nova, agent):
    """During a move the source's part belongs to the migration."""
    nova.root(VGPU=8)
    owner, migration = uid(), uid()
    place = claim_vgpu(agent, owner)
    (claim,) = agent.state.claims.values()
    moving = replace(claim, state="outgoing", migration_uuid=migration)
    agent.state = replace(agent.state, claims=agent.state.claims.set(claim.uuid, moving))
    nova.allocate(migration, root={"VCPU": 1, "VGPU": 1})
    agent.start()
    assert_idle(agent)
    assert agent.allocations(migration)[agent.children[place]] == {"VGPU": 1}


# -- faults ----------------------------------------------------------------------------------------


#: What happens to a request, and whether the process is killed then.
FAULTS = (
    *((Fault.LOST, True), (Fault.UNANSWERED, True)),
    *((Fault.CONFLICT, False), (Fault.UNANSWERED, False), (Fault.ERROR, False)),
)


def take_over(
    server: Placement,
    directory: Path,
    number: int = 0,
    fault: Fault | None = None,
    *,
    killed: bool = False,
) -> list[tuple[str, str]]:
    """Take over a host while the request with that number fails. Return those of the first round.

    :param killed: a new process goes on.
    """
    directory.mkdir()
    node = MirroredNode(server, directory)
    nova, agent = NovaCompute(node), Agent(node)
    agent.host(*GPUS[:1], *VFS, pci=VGPUS_AND_VFS)
    nova.root(VGPU=4)
    card = nova.child(CARD, {VF_CLASS: 2}, MANAGED)
    guest, other = uid(), uid()
    claim_vgpu(agent, guest, 2)
    claim_device(agent, other)
    nova.allocate(guest, root={"VCPU": 1, "VGPU": 2})
    nova.allocate(other, **{"root": {"VCPU": 3}, card: {VF_CLASS: 1}})

    with HttpRelay(server.url) as relay:
        node.auth = token_endpoint.Token(relay.url, server.token)
        if fault is not None:
            relay.fail(number, fault)
        agent.start()
        sent = relay.seen[:]
        if killed:
            assert sent[number + 1 :] == []  # as if it was killed then
            agent.start()
        for _ in range(ATTEMPTS):
            if agent.mirror.error is not None:
                agent.turn()
        assert_idle(agent)
    children = agent.children
    assert children == {CARD: card, VGPU_0: children[VGPU_0]}
    assert agent.allocations(guest) == {node.uuid: {"VCPU": 1}, children[VGPU_0]: {"VGPU": 2}}
    assert agent.allocations(other) == {node.uuid: {"VCPU": 3}, card: {VF_CLASS: 1}}
    assert "VGPU" not in agent.inventories(node.uuid)
    assert agent.inventories(children[VGPU_0]) == {"VGPU": (4, 0)}
    assert agent.inventories(card) == {VF_CLASS: (2, 0)}
    return sent


def test_a_fault_at_any_request_of_a_takeover_loses_nothing(server, tmp_path, long):
    """Writes: not executed or executed without an answer in turn, both for a reshape, and a kill
    before or after one in turn. Between two writes it makes little difference which read fails, and
    none how.
    """
    server.start()
    sent = take_over(server, tmp_path / "complete")
    assert ("POST", "/reshaper") in sent
    before = "POST"
    failures = itertools.cycle(FAULTS[2:4])
    for number, (method, path) in enumerate(sent):
        faults: list[tuple[Fault, bool]] = []
        if method != "GET":
            few = 2 if path == "/reshaper" else 1
            faults = [FAULTS[number % 2], *itertools.islice(failures, few)]
        elif before != "GET":
            faults = [FAULTS[-1]]
        for fault, killed in FAULTS if long else faults:
            directory = tmp_path / f"{number}-{fault.name}-{killed}"
            take_over(server, directory, number, fault, killed=killed)
        before = method
