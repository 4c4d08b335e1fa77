"""A daemon takes over a host whose virtual GPUs are on the root, and the command that shows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rtagent.virt.simulate import Machine, simulate
from rtagent.virt.simulate.documents import MDEV_TYPE
from tests.functional.cli.shell import Outcome, run
from tests.functional.placement.conftest import MirroredNode
from tests.functional.placement.takeovers import Agent, NovaCompute
from tests.servers.daemon import Daemon, wait_until
from tests.support.hosts import uid

#: The suffix of the provider of the host's GPU without mediated devices.
GPU = "0000:08:00.0"


class Host:
    """A simulated host with GPUs, published by nova-compute, and its daemon."""

    def __init__(self, node: MirroredNode, directory: Path) -> None:
        self.node, self.nova = node, NovaCompute(node)
        directory.mkdir()
        (directory / "compute_id").write_text(node.uuid)
        self.daemon = Daemon(directory, "fake://")
        self.daemon.configure({"DEFAULT": {"host": node.name}})
        self.daemon.configure({"devices": {"enabled_mdev_types": MDEV_TYPE}})
        spec = '{"vendor_id": "10de", "product_id": "13f1"}'
        self.daemon.configure({"pci": {"device_spec": spec, "report_in_placement": True}})

    def observe(self, gpus: int) -> None:
        """Let the daemon see the host, before it is to publish."""
        self.daemon.host_file.unlink()
        simulate(self.daemon.host_file, Machine(hostname=self.node.name, gpus=1, shared_gpus=gpus))
        self.daemon.start().wait_ready()
        self.daemon.terminate()
        self.daemon.configure({"placement": self.node.server.login})

    def run(self, *arguments: str) -> Outcome:
        return run("--config-file", str(self.daemon.config_file), "placement", *arguments)

    def reshape(self, *arguments: str) -> Outcome:
        return self.run("reshape", *arguments)

    @property
    def health(self) -> str:
        return str(self.daemon.read("health")["checks"])


@pytest.fixture
def host(node: MirroredNode, tmp_path: Path) -> Iterator[Host]:
    host = Host(node, tmp_path / "agent")
    yield host
    host.daemon.close()


def test_the_dry_run_shows_what_the_next_start_moves(node, host):
    host.observe(gpus=1)
    consumer = uid()
    host.nova.root(VGPU=8)
    adopted = host.nova.child(GPU, {"CUSTOM_PCI_10DE_13F1": 1}, ("COMPUTE_MANAGED_PCI_DEVICE",))
    host.nova.allocate(consumer, root={"VCPU": 2, "VGPU": 1})
    agent = Agent(node)
    before = agent.inventories(node.uuid)

    rows = [list(row.values()) for row in host.reshape("--dry-run", "-f", "json").json]

    child = next(row[0] for row in rows if row[0] != node.name)
    assert rows[0] == [node.name, "VGPU", "", 8, 0]
    assert rows[1][:4] == [child, "VGPU", "", 0]
    assert sorted(rows[2:]) == sorted(
        [[node.name, "VGPU", consumer, 1, 0], [child, "VGPU", consumer, 0, 1]]
    )
    assert agent.inventories(node.uuid) == before

    host.daemon.start().wait_ready()
    wait_until(lambda: len(agent.allocations(consumer)) == 2)
    children = agent.children
    assert children.pop(GPU) == adopted
    ((suffix, uuid),) = children.items()
    assert child == f"{node.name}_{suffix}"
    assert agent.allocations(consumer) == {node.uuid: {"VCPU": 2}, uuid: {"VGPU": 1}}
    outcome = host.reshape("--dry-run")
    assert (outcome.code, outcome.out) == (0, "")
    assert "nothing to do" in outcome.err

    host.daemon.terminate()
    wait_until(lambda: "no differences" in host.run("diff").err)
    host.daemon.start().wait_ready()
    wait_until(lambda: host.health.count("placement") > 0)
    assert agent.children == {GPU: adopted, suffix: uuid}


def test_a_refusal_is_shown_and_the_daemon_serves(node, host):
    host.observe(gpus=2)
    consumer = uid()
    host.nova.root(VGPU=8)
    host.nova.allocate(consumer, root={"VCPU": 2, "VGPU": 1})
    agent = Agent(node)

    outcome = host.reshape("--dry-run")
    assert outcome.code != 0
    assert consumer in outcome.err
    assert "openstack resource provider allocation delete" in outcome.err
    without = host.reshape()
    assert without.code != 0
    assert "restart rtagentd" in without.err

    host.daemon.start().wait_ready()
    wait_until(lambda: consumer in host.health)
    assert agent.inventories(node.uuid)["VGPU"] == (8, 0)
    assert host.daemon.running
    assert agent.children == {}


def test_diff_shows_what_the_next_start_changes_after_it_has_adopted(node, host):
    host.observe(gpus=0)
    host.nova.root()
    host.nova.child(
        GPU, {"CUSTOM_PCI_10DE_13F1": 1}, ("COMPUTE_MANAGED_PCI_DEVICE", "HW_NIC_SRIOV")
    )
    shared, aggregate = host.nova.sharing(f"shared-{node.name}", DISK_GB=100), uid()
    for each in (node.uuid, shared):
        host.nova.aggregate(each, aggregate)

    rows = [list(row.values())[1:4] for row in host.run("diff", "-f", "json").json]

    assert ["trait", "HW_NIC_SRIOV", "present"] in rows
    assert ["inventory", "DISK_GB"] in [row[:2] for row in rows]
    assert not any(row[0] == "provider" for row in rows)
    host.daemon.start().wait_ready()
    wait_until(lambda: host.run("diff", "-f", "json").json == [])
    assert "DISK_GB" not in node.inventories
    assert "HW_NIC_SRIOV" not in Agent(node).traits(Agent(node).children[GPU])
