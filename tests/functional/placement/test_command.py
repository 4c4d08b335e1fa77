"""rtagent placement, while the daemon runs and after it has ended."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rtagent.virt.simulate import Machine, simulate
from tests.functional.cli.shell import Outcome, run
from tests.functional.placement.conftest import MirroredNode
from tests.servers import Placement
from tests.servers.daemon import Daemon, wait_until
from tests.support.hosts import uid


class Agent:
    """A daemon that publishes to Placement, and the commands for it."""

    def __init__(self, daemon: Daemon, node: MirroredNode) -> None:
        self.daemon, self.node = daemon, node

    def start(self) -> None:
        """Start the daemon and wait until nothing differs."""
        self.daemon.start().wait_ready()
        self.node.uuid = (self.daemon.directory / "compute_id").read_text().strip()
        wait_until(lambda: self.rows() == [])

    @property
    def tree(self) -> list[dict[str, Any]]:
        """The providers of this node in Placement."""
        return self.node.server.tree(self.node.uuid)

    def run(self, *arguments: str) -> Outcome:
        return run("--config-file", str(self.daemon.config_file), "placement", *arguments)

    def rows(self) -> list[list[Any]]:
        found = self.run("diff", "-f", "json")
        return [list(row.values())[1:] for row in found.json] if found.code == 0 else [[found.err]]


def made(node: MirroredNode, directory: Path, bus: str) -> Iterator[Agent]:
    """Make an agent, and remove its providers at the end, so that their names are free again."""
    daemon = Daemon(directory, bus)
    daemon.configure({"placement": node.server.login, "DEFAULT": {"host": node.name}})
    agent = Agent(daemon, node)
    yield agent
    daemon.close()
    node.server.remove_tree(node.uuid)


@pytest.fixture
def agent(node: MirroredNode, tmp_path: Path, bus: str) -> Iterator[Agent]:
    yield from made(node, tmp_path / "agent", bus)


@pytest.fixture(scope="module")
def running(server: Placement, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent that runs, for tests that change nothing of it."""
    server.start()
    directory = tmp_path_factory.mktemp("running")
    node = MirroredNode(server, directory)
    for agent in made(node, directory / "agent", "fake://"):
        simulate(agent.daemon.host_file, Machine(hostname=node.name))
        agent.start()
        yield agent


def test_diff_is_empty_after_a_sync(running):
    outcome = running.run("diff")
    assert (outcome.code, outcome.out) == (0, "")
    assert "no differences" in outcome.err


def test_diff_lists_what_the_agent_would_change(agent):
    agent.start()
    agent.daemon.terminate()
    vcpus = agent.node.inventories["VCPU"]
    agent.node.set_inventories({"VCPU": {**vcpus, "total": 1}, "FPGA": {"total": 4}})
    agent.node.set_traits((agent.node.traits - {"COMPUTE_NODE"}) | {"CUSTOM_GOLD"})

    rows = agent.rows()

    assert [row[:2] for row in rows] == [
        ["trait", "COMPUTE_NODE"],
        ["inventory", "DISK_GB"],
        ["inventory", "MEMORY_MB"],
        ["inventory", "VCPU"],
    ]
    assert rows[0][2:] == ["absent", "present"]
    assert rows[1][2] == "absent"
    assert (rows[3][2]["total"], rows[3][3]["total"]) == (1, vcpus["total"])
    table = agent.run("diff").out
    assert f"total {vcpus['total']}, reserved 0" in table


@pytest.mark.parametrize("bus", ["rabbitmq"], indirect=True)
def test_sync_restores_what_another_client_changed(agent):
    agent.start()
    correct = agent.node.inventories
    agent.node.set_inventories({"VCPU": {**correct["VCPU"], "total": 1}})

    before = agent.daemon.read("nodes")["revision"]

    synced = agent.run("sync", "-f", "json")

    assert (synced.code, synced.err) == (0, "")
    assert agent.node.inventories == correct
    # An audit may end at any time.
    assert before <= synced.json["revision"] <= agent.daemon.read("nodes")["revision"]
    with agent.node.server.outage():
        outcome = agent.run("sync")
    assert outcome.code == 4
    assert "Unable to establish connection" in outcome.err


def test_diff_lists_providers_of_devices_and_obsolete_ones(agent):
    simulate(agent.daemon.host_file, Machine(gpus=2))
    spec = '{"vendor_id": "10de", "product_id": "13f1"}'
    agent.daemon.configure({"pci": {"device_spec": spec, "report_in_placement": True}})
    agent.start()
    agent.daemon.terminate()
    names = [f"simulated-host_0000:{bus}:00.0" for bus in ("08", "88")]
    children = {each["name"]: each["uuid"] for each in agent.tree if each["name"] in names}
    assert sorted(children) == names
    agent.node.admin.delete(f"/resource_providers/{children[names[0]]}")

    rows = [row[:2] for row in agent.rows()]

    assert ["provider", names[0]] in rows
    assert ["inventory", "CUSTOM_PCI_10DE_13F1"] in rows
    agent.daemon.configure({"pci": {"report_in_placement": False}})
    assert agent.rows() == [["provider", names[1], "present", "absent"]]
    agent.daemon.start().wait_ready()
    wait_until(lambda: agent.rows() == [])
    assert [each["name"] for each in agent.tree] == ["simulated-host"]


def test_show_lists_traits_by_who_set_them(running):
    running.node.set_traits(running.node.traits | {"CUSTOM_GOLD"})
    consumer = uid()
    assert running.node.allocate(consumer, {"MEMORY_MB": 512}) == 204
    shown = running.run("show", "-f", "json").json
    assert shown["uuid"] == running.node.uuid
    assert "COMPUTE_NODE" in shown["our_traits"]
    assert shown["other_traits"] == ["CUSTOM_GOLD"]
    assert (shown["inventories"]["MEMORY_MB"]["used"], shown["consumers"]) == (512, 1)
    assert shown["unwritten_allocations"] == 0
    assert "used 512" in running.run("show", running.node.name).out
    assert running.node.allocate(consumer, {}) == 204


def test_an_unknown_node_is_an_error(running):
    outcome = running.run("show", "elsewhere")
    assert (outcome.code, running.node.name in outcome.err) == (5, True)


def test_upgrade_check_succeeds_while_the_agent_runs(running):
    check = "--config-file", str(running.daemon.config_file), "upgrade", "check", "-f", "json"
    outcome = run(*check)
    assert {each["check"]: each["result"] for each in outcome.json} == {
        "Configuration": "Success",
        "Options": "Success",
        "Database schema": "Success",
        "Hypervisor": "Success",
        "State directory and node identity": "Success",
        "Rows of the node": "Success",
        "Placement": "Success",
    }
    assert outcome.code == 0
    right = running.node.server.login
    running.daemon.configure({"placement": {"token": "admin:without-role"}})
    outcome = run(*check)
    assert {each["check"] for each in outcome.json if each["result"] == "Warning"} == {"Placement"}
    assert "role service" in str(outcome.json)
    running.daemon.configure({"placement": right})
