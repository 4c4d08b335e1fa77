"""Odd documents of a hypervisor stop neither the audit nor the calls that use its results."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from rtagent.api import nodes, numa
from rtagent.audit import Auditor
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.errors import RtAgentError
from rtagent.placement import tree
from rtagent.tracker import ResourceTracker
from rtagent.virt.libvirt.hostfile import capabilities_path
from rtagent.virt.simulate import Machine, domain_xml, host_uri, simulate
from tests.support.hosts import ManualClock, uid
from tests.support.odd_documents import odd
from tests.support.trackers import claim, enroll, release
from tests.support.workload.deployment import migrated

MACHINE = Machine(sockets=2, cores=4, threads=2, memory_mb=65536)
SPECS = {"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated", "hw:mem_page_size": "large"}


@pytest.fixture
def file(tmp_path):
    simulate(tmp_path / "host.xml", MACHINE, [domain_xml(uid(7), vcpus=1, memory_mb=512)])
    return tmp_path / "host.xml"


def test_unreadable_capabilities_are_a_problem(connect, file):
    capabilities_path(file).unlink()
    capabilities_path(file).mkdir()

    seen = connect(host_uri(file)).observe()

    assert "cannot be read: Is a directory" in str(seen.problems)


def test_results_of_odd_capabilities_can_be_used(connect, file, tmp_path):
    store = SqlStore(open_engine(migrated(f"sqlite:///{tmp_path}/db.sqlite"), 5))
    tracker = ResourceTracker(store, ManualClock(), enroll(store))
    auditor = Auditor(tracker, connect(host_uri(file)), ManualClock())

    @settings(suppress_health_check=list(HealthCheck))
    @given(odd(capabilities_path(file).read_text()))
    def check(document: str) -> None:
        capabilities_path(file).write_text(document)
        auditor.run("test")
        try:
            made = claim(tracker, vcpus=2, memory_mb=64, extra_specs=SPECS)
            release(tracker, made.uuid)
        except RtAgentError as error:
            assert error.expected
        state = tracker.snapshot()
        msgspec.json.encode([nodes.nodes(state), numa.hosts(state)])
        tree.build(state, disabled=False, hypervisor_up=True)

    auditor.run("test")
    check()
