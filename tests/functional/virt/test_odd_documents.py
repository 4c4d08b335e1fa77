"""Odd documents of a hypervisor stop neither the audit nor the calls that use its results."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from rtagent.api import nodes, numa
from rtagent.audit import Auditor
from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.errors import HypervisorUnavailable, RtAgentError
from rtagent.model.node_state import NodeState
from rtagent.placement import tree
from rtagent.tracker import ResourceTracker
from rtagent.virt.libvirt import LibvirtHypervisor
from rtagent.virt.libvirt.hostfile import capabilities_path
from rtagent.virt.libvirt.storage import FileSystem
from rtagent.virt.simulate import Machine, domain_xml, host_uri, simulate
from tests.support.hosts import ManualClock, uid
from tests.support.odd_documents import odd
from tests.support.trackers import claim, enroll, release

MACHINE = Machine(sockets=2, cores=4, threads=2, memory_mb=65536)
SPECS = {"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated", "hw:mem_page_size": "large"}


class Here:
    """An audited node on a simulated host."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "host.xml"
        simulate(self.file, MACHINE, [domain_xml(uid(7), vcpus=1, memory_mb=512)])
        self.good = capabilities_path(self.file).read_bytes()
        engine = open_engine(f"sqlite:///{directory}/db.sqlite", 5)
        migrate.sync(engine)
        store = SqlStore(engine)
        self.tracker = ResourceTracker(store, ManualClock(), enroll(store))
        self.hypervisor = LibvirtHypervisor(
            host_uri(self.file), "/instances", probe=lambda _: FileSystem(total=2**40, free=2**40)
        )
        self.auditor = Auditor(self.tracker, self.hypervisor, ManualClock())

    def describe(self, document: bytes) -> None:
        """Replace the capabilities document."""
        capabilities_path(self.file).write_bytes(document)

    def audit(self) -> str:
        """Audit, and return the problems."""
        return str(self.auditor.run("test").problems)

    @property
    def state(self) -> NodeState:
        return self.tracker.snapshot()


@pytest.fixture
def here(tmp_path):
    made = Here(tmp_path)
    yield made
    made.hypervisor.stop()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b"<memory unit='KiB'>", b"<memory unit='KiB'>&undefined;", "not well-formed"),
        (b"<memory unit='KiB'>", b"<memory unit='KiB'>\xff", "not well-formed"),
        (b"<capabilities>", b'<!DOCTYPE x [<!ENTITY e "7">]><capabilities>', "document type"),
    ],
)
def test_odd_capabilities_are_a_problem_until_they_are_corrected(here, old, new, problem):
    here.audit()
    known = here.state.topology
    assert known is not None
    found = here.good.replace(b'"', b"'")
    assert old in found

    here.describe(found.replace(old, new))

    assert problem in here.audit()
    assert here.state.topology == known
    with pytest.raises(HypervisorUnavailable, match="the host's capabilities: "):
        here.hypervisor.identity()
    here.describe(here.good)
    assert here.audit() == "()"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b"<memory unit='KiB'>", b"<memory unit='KiB'>" + b"7" * 5000, "<memory> is 777"),
        (b"size='4'", b"size='0'", "<pages size> is less than 1 KiB"),
    ],
)
def test_an_odd_size_of_a_cell_is_a_problem_and_the_cell_has_no_pages(here, old, new, problem):
    here.audit()
    known = here.state.topology
    found = here.good.replace(b'"', b"'")
    assert known is not None and old in found

    here.describe(found.replace(old, new))

    assert problem in here.audit()
    assert here.state.topology is not None
    assert not all(cell.pages for cell in here.state.topology.cells)
    here.describe(here.good)
    assert here.audit() == "()"
    assert here.state.topology == known


def test_unreadable_capabilities_are_a_problem(here):
    capabilities_path(here.file).unlink()
    capabilities_path(here.file).mkdir()

    assert "cannot be read: Is a directory" in here.audit()


def test_results_of_odd_capabilities_can_be_used(here):
    text = here.good.decode()

    @settings(suppress_health_check=list(HealthCheck))
    @given(odd(text))
    def check(document: str) -> None:
        here.describe(document.encode())
        here.audit()
        try:
            made = claim(here.tracker, vcpus=2, memory_mb=64, extra_specs=SPECS)
            release(here.tracker, made.uuid)
        except RtAgentError as error:
            assert error.expected
        msgspec.json.encode([nodes.nodes(here.state), numa.hosts(here.state)])
        tree.build(here.state, disabled=False, hypervisor_up=True)

    here.audit()
    check()
