"""What is reported to schedulers, and when."""

import contextlib
import random

import pytest
from msgspec.structs import replace

from rtagent.errors import CommitUnknown, InvalidRequest, StoreUnavailable
from rtagent.model.host_report import MAX_CELLS
from rtagent.model.metric import Metric
from rtagent.model.node_state import NodeState
from rtagent.model.policy import PciPolicy, Policy
from rtagent.model.topology import Cell
from rtagent.ports import Service
from rtagent.rpc.casts import CastFailed
from rtagent.scheduler.report import instances_digest, instances_of
from rtagent.scheduler.report_documents import instances_from, report_from
from rtagent.service.context import (
    DuplicateChanged,
    Granting,
    HypervisorLost,
    Reloaded,
    ServiceChanged,
)
from rtagent.service.heartbeat import Heartbeat
from rtagent.service.host_reports import MAX_REMOVED, PART, RETRY_INTERVAL, STOPPING, HostReports
from rtagent.service.loop import every
from tests.support.hosts import NODE, NOON, uid
from tests.support.pci_hosts import GPU_0, SPECS, gpu
from tests.support.trackers import claim, release
from tests.unit.service.conftest import World, make_settings

INTERVAL, HEARTBEAT, SYNC, JITTER = 0.5, 10, 120, 5.0


class Schedulers:
    """What has been cast. :ivar error: raised instead."""

    def __init__(self):
        self.casts, self.error = [], None

    def send(self, casts):
        if self.error is not None:
            raise self.error
        self.casts += casts

    def got(self):
        """The messages since the last look, as (method, arguments)."""
        casts, self.casts = self.casts, []
        return [(each.method, dict(each.arguments)) for each in casts]

    def methods(self):
        return [method for method, _ in self.got()]


class Reporting:
    """The reports of one node, made turn by turn."""

    def __init__(self, world):
        self.world, self.schedulers, self.woken = world, Schedulers(), 0
        self.metrics = ()
        self.heartbeat = Heartbeat(world.context, world.registry, world.tracker)
        self.reports = HostReports(
            world.context,
            world.node,
            world.admission,
            self.heartbeat,
            self.schedulers.send,
            lambda: self.metrics,
            self.wake,
        )

    def wake(self):
        self.woken += 1

    def turn(self, seconds=INTERVAL):
        self.world.clock.advance(seconds)
        self.reports.turn()
        return self.schedulers.got()

    @property
    def state(self) -> NodeState:
        return self.world.tracker.snapshot()

    def claim(self, owner=None, **arguments):
        return claim(self.world.tracker, owner=owner, **arguments)


@pytest.fixture
def reporting(world):
    world.serve()
    started = Reporting(world)
    assert [method for method, _ in started.turn(0)] == ["sync_instance_info", "update_host_state"]
    started.woken = 0
    return started


def report_in(casts):
    """The report among messages; it is the last one."""
    method, arguments = casts[-1]
    assert method == "update_host_state"
    return report_from(arguments["report"])


def test_while_devices_cannot_be_listed_they_are_reported_as_unavailable(tmp_path):
    world = World(make_settings(tmp_path), Policy(pci=PciPolicy(specs=SPECS)))
    world.hypervisor.devices[GPU_0] = gpu()
    world.serve()
    reporting = Reporting(world)

    def reported():
        [device] = report_in(reporting.turn(HEARTBEAT)).description.devices
        return device.quarantine

    assert reported() is None
    world.hypervisor.unlisted = True
    world.auditor.run("timer")
    unlisted = "the last audit could not list the host's devices"
    assert reported() == f"{unlisted}: no claim gets any until one can"
    world.auditor.run("timer")
    assert report_in(reporting.turn(HEARTBEAT)).description is None  # it is what it was
    world.hypervisor.unlisted = False
    world.auditor.run("timer")
    assert reported() is None

    world.tracker.set_policy(replace(world.policy, reserved_memory_mb=256))
    assert report_in(reporting.turn()).description.policy.reserved_memory_mb == 256


def test_first_report_follows_the_first_audit_and_is_complete(world):
    reporting = Reporting(world)
    assert reporting.turn() == []
    world.auditor.run("start")
    (sync, whole), (_, report) = reporting.turn(0)
    assert sync == "sync_instance_info"
    assert instances_from(sync, whole["instances"]) == ()
    assert (whole["host"], whole["node_uuid"], whole["epoch"]) == (NODE.host, NODE.uuid, 1)
    assert (whole["revision"], whole["digest"]) == (1, instances_digest([]))
    first = report_from(report["report"])
    assert first.description.topology == reporting.state.topology
    assert not first.up
    assert "audit" in first.why_not


def test_change_is_reported_with_its_instances(reporting):
    claim = reporting.claim(memory_mb=512)
    assert reporting.woken == 1
    (update, arguments), last = reporting.turn()
    assert update == "update_instance_info"
    assert arguments["revision"] == 2
    (info,) = instances_from(update, arguments["instances"])
    assert info == instances_of(reporting.state)[claim.owner_id]
    report = report_in([last])
    assert report.claims == (claim.uuid,)
    assert report.usage.memory_mb == 512
    assert report.description is None
    assert report.up
    assert (report.epoch, report.revision) == (1, reporting.state.revision)
    assert report.instances_revision == 2
    assert report.number == 0
    assert report.instances_digest == instances_digest([claim.owner_id])


def test_changes_of_one_interval_are_one_report(reporting):
    claims = [reporting.claim() for _ in range(3)]
    release(reporting.world.tracker, claims[0].uuid)
    assert reporting.woken == 1
    assert reporting.reports.turn().at_least == INTERVAL
    (update, arguments), last = reporting.schedulers.got()
    named = instances_from(update, arguments["instances"])
    assert {info.uuid for info in named} == {claim.owner_id for claim in claims[1:]}
    assert report_in([last]).claims == tuple(sorted(claim.uuid for claim in claims[1:]))
    assert report_in([last]).ended == (claims[0].uuid,)
    assert reporting.turn() == []
    assert report_in(reporting.turn(HEARTBEAT)).ended == ()


def test_instances_that_left_are_named_or_the_list_is_sent(reporting):
    claims = [reporting.claim() for _ in range(MAX_REMOVED + 2)]
    reporting.turn()
    release(reporting.world.tracker, claims[0].uuid)
    (delete, arguments), last = reporting.turn()
    assert (delete, arguments["instance_uuid"]) == ("delete_instance_info", claims[0].owner_id)
    assert arguments["revision"] == report_in([last]).instances_revision == 3
    for left in claims[1:]:
        release(reporting.world.tracker, left.uuid)
    (sync, arguments), last = reporting.turn()
    assert instances_from(sync, arguments["instances"]) == ()
    assert arguments["revision"] == report_in([last]).instances_revision == 4


def test_heartbeat_without_a_change(reporting):
    assert reporting.reports.turn().at_most == HEARTBEAT
    assert reporting.turn(HEARTBEAT - 1) == []
    (beat,) = reporting.turn(1)
    assert report_in([beat]).revision == reporting.state.revision
    reporting.world.configure(report_interval=3)
    reporting.turn(HEARTBEAT)
    assert reporting.reports.turn().at_most == 3


def test_digest_of_the_list_at_its_interval(reporting):
    claim = reporting.claim()
    for _ in range(SYNC // HEARTBEAT - 1):
        assert reporting.turn(HEARTBEAT)[-1][0] == "update_host_state"
    (sync, arguments), last = reporting.turn(HEARTBEAT)
    assert sync == "sync_instance_info"
    assert "instances" not in arguments
    assert arguments["digest"] == instances_digest([claim.owner_id])
    assert arguments["revision"] == report_in([last]).instances_revision == 3


@pytest.mark.parametrize(
    "questions",
    [
        [(False, False)],
        [(True, False)],
        [(False, True)],
        [(True, False), (False, True), (False, False)],
    ],
)
def test_questions_of_schedulers_have_one_answer(reporting, questions):
    description, instances = (any(wanted) for wanted in zip(*questions, strict=True))
    claim = reporting.claim()
    reporting.turn()
    reporting.woken = 0
    for question in questions:
        reporting.reports.ask(*question)
    assert reporting.woken == len(questions)
    rest = reporting.reports.turn()
    assert rest.at_most <= max(JITTER, INTERVAL)
    casts = [*reporting.schedulers.got(), *reporting.turn(rest.at_most)]
    assert (report_in(casts).description is not None) is description
    assert len(casts) == 1 + instances
    if instances:
        sync, arguments = casts[0]
        (info,) = instances_from(sync, arguments["instances"])
        assert info.claims[0].uuid == claim.uuid
    assert reporting.turn(JITTER) == []


def test_answers_are_spread_over_the_jitter(reporting):
    random.seed(7)
    rests = []
    for _ in range(30):
        reporting.reports.ask(True, False)
        rests.append(reporting.reports.turn().at_most)
        reporting.turn(JITTER)
    assert min(rests) < 2 * INTERVAL < 3.0 < max(rests)


def test_after_a_lost_message_the_next_are_complete(reporting):
    reporting.schedulers.error = CastFailed("no broker")
    claim, ended = reporting.claim(), reporting.claim()
    release(reporting.world.tracker, ended.uuid)
    assert reporting.reports.turn() == every(RETRY_INTERVAL)
    reporting.schedulers.error = None
    (sync, arguments), last = reporting.turn(RETRY_INTERVAL)
    (info,) = instances_from(sync, arguments["instances"])
    assert info.uuid == claim.owner_id
    assert report_in([last]).ended == (ended.uuid,)
    assert report_in([last]).description is not None
    assert arguments["revision"] == report_in([last]).instances_revision > 2
    line = ("warning", "schedulers did not get a report: no broker")
    assert line in reporting.world.notes.logged


def test_new_epoch_starts_its_numbers_again(reporting):
    claim = reporting.claim()
    reporting.turn()
    reporting.world.store.fail(CommitUnknown, after=True)
    with contextlib.suppress(StoreUnavailable):
        reporting.claim()  # the state is loaded again, under a new epoch
    reporting.world.store.heal()
    reporting.claim()
    assert reporting.state.epoch > 1
    (sync, arguments), last = reporting.turn()
    assert claim.owner_id in {i.uuid for i in instances_from(sync, arguments["instances"])}
    assert (arguments["epoch"], arguments["revision"]) == (reporting.state.epoch, 1)
    assert report_in([last]).instances_revision == 1


SERVICE = Service(host="cn1", binary="rtagent")


@pytest.mark.parametrize(
    "event",
    [
        Granting(),
        HypervisorLost(),
        ServiceChanged(service=SERVICE, why_forced_down=""),
        DuplicateChanged(error=None),
        Reloaded(),
    ],
)
def test_whatever_changes_a_report_wakes_the_thread(reporting, event):
    reporting.turn()
    reporting.woken = 0
    reporting.world.bus.publish(event)
    assert reporting.woken == 1


def test_metrics_of_the_monitors_are_reported(reporting):
    assert report_in(reporting.turn(HEARTBEAT)).metrics == ()
    reporting.metrics = (Metric(name="cpu.percent", value=0.5, timestamp=NOON),)
    assert report_in(reporting.turn(HEARTBEAT)).metrics == reporting.metrics


def test_agent_that_stops_reports_it(reporting):
    reporting.reports.leave(0)
    report = report_in(reporting.schedulers.got())
    assert (report.up, report.why_not) == (False, STOPPING)
    reporting.world.bus.publish(Reloaded())
    assert reporting.turn() == []


def test_agent_that_stops_does_not_wait_for_a_broker_that_is_away(reporting):
    reporting.schedulers.error = CastFailed("no broker")
    reporting.world.bus.publish(Reloaded())
    reporting.turn()
    reporting.schedulers.error = None
    reporting.reports.leave(0)
    assert reporting.schedulers.got() == []


def test_orphans_are_reported(reporting):
    reporting.world.hypervisor.start_domain(uid(7), vcpus=2, memory_mb=64)
    reporting.world.auditor.run("test")
    (update, arguments), last = reporting.turn()
    (info,) = instances_from(update, arguments["instances"])
    assert (info.uuid, info.here, info.claims) == (uid(7), False, ())
    assert info.domain_usage.vcpus == 2
    assert report_in([last]).usage.vcpus == 2


def test_the_service_is_reported_and_its_changes_are_numbered(reporting):
    reporting.heartbeat.turn()
    reports = []
    for disabled in (True, False, False):
        reporting.heartbeat.set_disabled(NODE.host, disabled, "maintenance" if disabled else None)
        reporting.claim(memory_mb=64)
        reports.append(report_in(reporting.turn()[-1:]))
    assert [report.number for report in reports] == [1, 2, 2]
    assert [report.service.disabled_reason for report in reports] == ["maintenance", None, None]
    assert reports[0].service.disabled and reports[0].up


def test_an_agent_says_that_schedulers_set_its_host_aside(reporting):
    notes = reporting.world.notes
    assert notes.texts[PART] == "pass"
    hypervisor = reporting.world.hypervisor
    cells = tuple(Cell(id=at, cpus=frozenset(), memory_mb=1) for at in range(MAX_CELLS + 1))
    hypervisor.topology = replace(hypervisor.topology, cells=cells)
    reporting.world.auditor.run("cells")
    (_, document) = reporting.turn()[-1]
    why = "has 257 NUMA cells, and a host has at most 256"
    assert notes.texts[PART] == f"warn: schedulers set this host aside, because it {why}"
    with pytest.raises(InvalidRequest, match=why):
        report_from(document["report"])
