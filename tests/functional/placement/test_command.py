"""rtagent placement: beside a running daemon, and after it has ended."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rtagent.cmd.rtagentd import EX_CONFIG
from rtagent.virt.simulate import Machine, domain_xml, edit, simulate
from tests.builders import uid
from tests.functional.cli.shell import Outcome, run
from tests.functional.placement.conftest import World
from tests.nodedevs import pci
from tests.servers import Placement
from tests.servers.daemon import Daemon


def options(server: Placement) -> dict[str, object]:
    return {"auth_type": "admin_token", "endpoint": server.url, "token": server.token}


class Agent:
    """A daemon that publishes to Placement, and the commands for it."""

    def __init__(self, daemon: Daemon, world: World) -> None:
        self.daemon, self.world = daemon, world

    def synced(self) -> None:
        """The daemon runs, and Placement shows what it shall."""
        self.daemon.start().wait_ready()
        self.world.uuid = (self.daemon.directory / "compute_id").read_text().strip()
        assert self.world.eventually(lambda: self.rows() == [])

    @property
    def tree(self) -> list[dict[str, Any]]:
        """The providers that Placement has of this node."""
        found = self.world.admin.get(f"/resource_providers?in_tree={self.world.uuid}").json()
        providers: list[dict[str, Any]] = found["resource_providers"]
        return providers

    def run(self, *arguments: str) -> Outcome:
        return run("--config-file", str(self.daemon.config_file), "placement", *arguments)

    def rows(self) -> list[list[Any]]:
        found = self.run("diff", "-f", "json")
        return [list(row.values())[1:] for row in found.json] if found.code == 0 else [[found.err]]


@pytest.fixture
def bus(request: pytest.FixtureRequest) -> str:
    """The URL of a message bus; one that ends with the daemon, unless another is asked for."""
    if getattr(request, "param", None) == "rabbitmq":
        return str(request.getfixturevalue("rabbitmq").transport_url)
    return "fake://"


@pytest.fixture
def agent(world: World, tmp_path: Path, bus: str) -> Iterator[Agent]:
    daemon = Daemon(tmp_path / "agent", bus)
    daemon.configure({"placement": options(world.server)})
    daemon.configure({"DEFAULT": {"host": world.name}})
    agent = Agent(daemon, world)
    yield agent
    daemon.close()
    # Children first; then the names are free again.
    for each in sorted(agent.tree, key=lambda each: each["parent_provider_uuid"] is None):
        assert world.admin.delete(f"/resource_providers/{each['uuid']}").status_code == 204


def test_nothing_differs_once_it_is_synced(agent):
    agent.synced()
    said = agent.run("diff")
    assert (said.code, said.out) == (0, "")
    assert "no differences" in said.err


def test_what_the_agent_would_change_is_listed(agent):
    agent.synced()
    agent.daemon.terminate()
    vcpus = agent.world.inventories["VCPU"]
    agent.world.set_inventories({"VCPU": {**vcpus, "total": 1}, "VGPU": {"total": 4}})
    agent.world.set_traits((agent.world.traits - {"COMPUTE_NODE"}) | {"CUSTOM_GOLD"})

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
def test_what_somebody_changed_is_put_right_on_demand(agent):
    agent.synced()
    right = agent.world.inventories
    agent.world.set_inventories({"VCPU": {**right["VCPU"], "total": 1}})

    synced = agent.run("sync", "-f", "json").json

    assert agent.world.inventories == right
    assert synced["revision"] == agent.daemon.read("nodes")["revision"]
    with agent.world.server.outage():
        said = agent.run("sync")
    assert (said.code, "Unable to establish connection" in said.err) == (4, True)


def test_a_provider_that_is_missing_is_listed(agent):
    agent.synced()
    agent.daemon.terminate()
    agent.world.admin.delete(agent.world.path)
    assert agent.rows()[0] == ["provider", "simulated-host", "absent", "present"]


def test_devices_are_compared_too_and_those_that_are_told_of_no_more(agent):
    simulate(agent.daemon.host_file, Machine(gpus=2))
    spec = '{"vendor_id": "10de", "product_id": "13f1"}'
    agent.daemon.configure({"pci": {"device_spec": spec, "report_in_placement": True}})
    agent.synced()
    agent.daemon.terminate()
    names = [f"simulated-host_0000:{bus}:00.0" for bus in ("08", "88")]
    children = {each["name"]: each["uuid"] for each in agent.tree if each["name"] in names}
    assert sorted(children) == names
    agent.world.admin.delete(f"/resource_providers/{children[names[0]]}")

    rows = [row[:2] for row in agent.rows()]

    assert ["provider", names[0]] in rows
    assert ["inventory", "CUSTOM_PCI_10DE_13F1"] in rows
    agent.daemon.configure({"pci": {"report_in_placement": False}})
    assert agent.rows() == [["provider", names[1], "present", "absent"]]
    agent.daemon.start().wait_ready()
    assert agent.world.eventually(lambda: agent.rows() == [])
    assert [each["name"] for each in agent.tree] == ["simulated-host"]


def test_a_card_that_placement_cannot_be_told_of_ends_a_start_and_not_the_daemon(agent):
    simulate(agent.daemon.host_file, Machine(nics=1))
    spec = '{"vendor_id": "8086"}'
    agent.daemon.configure({"pci": {"device_spec": spec, "report_in_placement": True}})
    agent.synced()
    card = ["simulated-host", "simulated-host_0000:20:00.0"]
    assert sorted(each["name"] for each in agent.tree) == card

    with edit(agent.daemon.host_file) as host:
        host.add_device(pci("0000:20:02.0", product="154c", pf="0000:20:00.0"))

    rule = "[pci] device_spec 0: address = 0000:20:02.0: is of one card with 0000:20:00.0"
    assert agent.world.eventually(lambda: rule in str(agent.daemon.read("health")["checks"]))
    assert agent.world.eventually(lambda: agent.rows() == [])
    assert sorted(each["name"] for each in agent.tree) == card

    agent.daemon.terminate()
    agent.daemon.start()
    assert agent.daemon.wait() == EX_CONFIG
    assert rule in agent.daemon.last_lines()


def test_what_placement_has_is_shown_with_who_set_it(agent):
    agent.synced()
    agent.world.set_traits(agent.world.traits | {"CUSTOM_GOLD"})
    consumer = uid()
    assert agent.world.allocate(consumer, {"MEMORY_MB": 512}) == 204
    shown = agent.run("show", "-f", "json").json
    assert shown["uuid"] == agent.world.uuid
    assert "COMPUTE_NODE" in shown["our_traits"]
    assert shown["other_traits"] == ["CUSTOM_GOLD"]
    assert (shown["inventories"]["MEMORY_MB"]["used"], shown["consumers"]) == (512, 1)
    assert "used 512" in agent.run("show", "simulated-host").out
    assert agent.world.allocate(consumer, {}) == 204


def test_a_node_that_is_not_there(agent):
    agent.synced()
    said = agent.run("show", "elsewhere")
    assert (said.code, "simulated-host" in said.err) == (5, True)


def test_without_placement_there_is_nothing_to_compare(agent):
    agent.daemon.configure({"placement": {"auth_type": ""}})
    assert "auth_type" in agent.run("diff").err


def test_it_counts_domains_that_nobody_claimed(agent):
    agent.synced()
    with edit(agent.daemon.host_file) as host:
        host.add_domain(domain_xml(uid(), vcpus=2, memory_mb=1024))
    assert agent.world.eventually(lambda: agent.world.inventories["MEMORY_MB"]["reserved"] >= 1024)
    assert agent.world.eventually(lambda: agent.rows() == [])
