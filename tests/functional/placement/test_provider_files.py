"""Provider files of a daemon: they come, change, go and are wrong, and Placement follows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rtagent.cmd.daemon import EX_CONFIG
from rtagent.virt.simulate import Machine, simulate
from tests.functional.cli.shell import run
from tests.functional.placement.conftest import MirroredNode
from tests.functional.placement.test_command import Agent
from tests.servers.daemon import Daemon, wait_until
from tests.support.provider_files import CLASS, TRAIT, entry, write

HOSTNAME = "simulated-host"
#: The GPUs of the simulated host.
GPUS = ("0000:08:00.0", "0000:88:00.0")
GPU_CLASS = "CUSTOM_PCI_10DE_13F1"
THIS = {"uuid": "$COMPUTE_NODE"}
GPU = {"name": f"{HOSTNAME}_{GPUS[0]}"}


class Files:
    """The provider files of an agent, and what Placement has."""

    def __init__(self, agent: Agent, directory: Path) -> None:
        self.agent, self.directory = agent, directory

    def write(self, *entries: dict[str, Any], name: str = "a.yaml") -> None:
        write(self.directory, name, *entries)

    def reload(self) -> None:
        """Have the daemon read the files, and wait until it has."""
        reloads = self.agent.daemon.count_logged("the configuration was reloaded")
        self.agent.daemon.reload()
        wait_until(
            lambda: self.agent.daemon.count_logged("the configuration was reloaded") > reloads
        )

    def records(self, suffix: str = "") -> dict[str, Any]:
        """The inventories of a provider, in Placement."""
        name = f"{HOSTNAME}_{suffix}" if suffix else HOSTNAME
        found = [each["uuid"] for each in self.agent.tree if each["name"] == name]
        return self.agent.node.server.inventories(found[0]) if found else {}

    def total(self, suffix: str = "") -> int:
        """The total of the class of these tests; 0: it is absent."""
        return int(self.records(suffix).get(CLASS, {"total": 0})["total"])

    def wait_total(self, total: int, suffix: str = "") -> None:
        wait_until(lambda: self.total(suffix) == total)

    def health(self, part: str) -> dict[str, Any]:
        """The health of a part; it has no status before it has done something."""
        (check,) = self.agent.daemon.read("health")["checks"].get(part, [{"status": ""}])
        return dict(check)


@pytest.fixture
def files(node: MirroredNode, tmp_path: Path, bus: str) -> Iterator[Files]:
    directory = tmp_path / "provider_config"
    daemon = Daemon(tmp_path / "agent", bus)
    daemon.configure(
        {
            "DEFAULT": {"host": node.name},
            "placement": node.server.login,
            "compute": {"provider_config_location": directory},
            "pci": {
                "device_spec": '{"vendor_id": "10de", "product_id": "13f1"}',
                "report_in_placement": True,
            },
        }
    )
    simulate(daemon.host_file, Machine(gpus=2))
    agent = Agent(daemon, node)
    yield Files(agent, directory)
    daemon.close()
    node.server.remove_tree(node.uuid)


def test_files_come_change_and_go_with_reloads(files):
    files.agent.start()
    own = files.records()
    assert CLASS not in own

    files.write(
        entry(THIS, {CLASS: {"total": 8, "reserved": 1, "max_unit": 4}}, (TRAIT,)),
        entry(GPU, {CLASS: {"total": 2}}),
    )
    files.reload()

    files.wait_total(8)
    files.wait_total(2, GPUS[0])
    assert files.records() == {
        **own,
        CLASS: {
            "total": 8,
            "reserved": 1,
            "min_unit": 1,
            "max_unit": 4,
            "step_size": 1,
            "allocation_ratio": 1.0,
        },
    }
    assert TRAIT in files.agent.node.traits
    assert files.total(GPUS[1]) == 0
    assert files.agent.rows() == []
    path = f"/allocation_candidates?resources={CLASS}:4&required={TRAIT}"
    found = files.agent.node.admin.get(path).json()["allocation_requests"]
    assert [list(each["allocations"]) for each in found] == [[files.agent.node.uuid]]
    (on_root, on_gpu) = files.agent.daemon.read("nodes")["nodes"][0]["provider_files"]
    assert on_root == {
        "provider": HOSTNAME,
        "file": f"{files.directory}/a.yaml",
        "inventories": {CLASS: files.records()[CLASS]},
        "traits": [TRAIT],
    }
    assert (on_gpu["provider"], on_gpu["inventories"].keys()) == (GPU["name"], {CLASS})
    shown = run("--config-file", str(files.agent.daemon.config_file), "node", "show").out
    assert f"{HOSTNAME}: {files.directory}/a.yaml" in shown
    assert f"{CLASS}: total 8, reserved 1, min_unit 1, max_unit 4, step_size 1" in shown

    files.agent.daemon.terminate()
    during_a_start = files.agent.node.requests_of(files.agent.start)
    assert {each.method for each in during_a_start} == {"GET"}

    files.write(entry({"name": HOSTNAME}, {CLASS: {"total": 16}}))
    files.reload()

    files.wait_total(16)
    files.wait_total(0, GPUS[0])
    assert TRAIT not in files.agent.node.traits
    assert files.records(GPUS[0]).keys() == {GPU_CLASS}

    (files.directory / "a.yaml").unlink()
    files.reload()

    files.wait_total(0)
    assert files.records() == own


def test_mistakes_change_nothing_while_the_agent_runs_and_stop_the_next_start(files):
    daemon = files.agent.daemon
    files.write(entry(THIS, {CLASS: {"total": 8}}))
    files.agent.start()
    files.wait_total(8)

    files.write(entry(THIS, {CLASS: {"total": 9, "reserved": 10}}))
    files.write(entry(THIS, {"VCPU": {"total": 9}}), name="b.yaml")
    mistakes = [
        f"{files.directory}/a.yaml: $.providers[0].inventories.additional[0].{CLASS}.reserved:"
        " must be at most the total (9)",
        f"{files.directory}/b.yaml: $.providers[0].inventories.additional[0].VCPU: only names of"
        " the form CUSTOM_[A-Z0-9_]+ can be added; the agent sets all others",
    ]
    daemon.reload()
    for mistake in mistakes:
        daemon.wait_logged(f"the old configuration stays in force: {mistake}")

    check = run("--config-file", str(daemon.config_file), "config", "check")
    assert check.code == 1
    assert all(mistake in check.err for mistake in mistakes)

    conflict = {GPU_CLASS: {"total": 1}}
    files.write(entry(GPU, conflict))
    (files.directory / "b.yaml").unlink()
    daemon.reload()
    ruled = (
        f"a.yaml: $.providers[0]: the agent itself publishes {GPU_CLASS} of provider {GPU['name']}"
    )
    daemon.wait_logged(f"the old configuration stays in force: {files.directory}/{ruled}")
    assert files.agent.rows() != []  # the command reads the files, too
    assert files.total() == 8

    daemon.terminate()
    assert daemon.start().wait() == EX_CONFIG
    assert daemon.count_logged(f"{files.directory}/{ruled}") == 2
    files.write(entry(THIS, {CLASS: {"total": 9, "reserved": 10}}))
    assert daemon.start().wait() == EX_CONFIG
    assert daemon.count_logged(f"rtagentd: {mistakes[0]}") == 1
    assert files.total() == 8
