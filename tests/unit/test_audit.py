"""One audit: its summary, its chunks, and what it does without hypervisor or store."""

import json
import sys
import threading

import pytest
from immutables import Map

from rtagent.audit import PART, Auditor
from rtagent.claims import activate_claim, instance_claim
from rtagent.errors import HypervisorUnavailable, StoreUnavailable
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.model.observation import Reboot
from rtagent.pci.allocations import device_allocations
from rtagent.pci.specs import parse_specs
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryStore
from rtagent.tracker import CHUNK, ResourceTracker
from tests.servers.daemon import wait_until
from tests.support.device_states import policy
from tests.support.hosts import TOPOLOGY, ManualClock, call, host, request, uid
from tests.support.pci_hosts import GPU_0, PF_0, PF_IDS, gpu, nic, vf
from tests.support.trackers import Reports, claim, enroll


@pytest.fixture
def store():
    return FailingStore(MemoryStore())


@pytest.fixture
def world():
    return FakeHypervisor(TOPOLOGY)


def auditor_on(store, world, reports=None, clock=None, **options):
    """:param options: ``part``, and fields of the policy."""
    clock, parts = clock or ManualClock(), {"part": options.pop("part", PART)}
    tracker = ResourceTracker(store, clock, enroll(store, host(**options).policy))
    return Auditor(tracker, world, clock, reports, **parts)


@pytest.fixture
def auditor(store, world):
    return auditor_on(store, world)


def test_first_audit_records_the_host(auditor):
    summary = auditor.run("start")
    assert auditor.tracker.snapshot().topology == TOPOLOGY
    counts = "0 claims, 0 orphans, 0 drifts, 0 absent, 0 suspects"
    assert str(summary) == f"audit (start): applied 1, skipped 0; {counts}; 0 ms"
    assert summary.good and auditor.last is summary


def test_audit_of_an_unchanged_host_writes_nothing(auditor, store, world):
    world.start_domain(uid(), 1, 512)
    auditor.run("start")
    commits = store.calls["commit"]
    summary = auditor.run("periodic")
    assert (summary.applied, summary.orphans) == (0, 1)
    assert store.calls["commit"] == commits


def raising(error):
    """Return a step of the observation that fails."""

    def fail(step):
        if step == "list":
            raise error

    return fail


@pytest.mark.parametrize(
    "error",
    [
        HypervisorUnavailable("gone"),
        SystemError("virConnectOpen returned a result with an exception set"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        KeyError("of a defect"),
        OSError(5, "Input/output error"),
    ],
    ids=repr,
)
def test_whatever_error_ends_an_audit_no_claim_is_created_until_one_is_good(auditor, world, error):
    auditor.run("start")
    world.between = raising(error)
    with pytest.raises(type(error)):
        auditor.run("periodic")
    for create in (
        lambda: claim(auditor.tracker),
        lambda: auditor.tracker.test_claim(instance_claim, request()),
    ):
        with pytest.raises(HypervisorUnavailable):
            create()
    world.between = lambda _: None
    auditor.run("periodic")
    assert claim(auditor.tracker)


def test_no_claim_is_created_until_each_part_of_the_host_is_observed(auditor, world):
    other = Auditor(auditor.tracker, world, ManualClock(), part="domains")
    world.between = raising(SystemError())
    with pytest.raises(SystemError):
        other.run("start")
    world.between = lambda _: None
    auditor.run("start")
    with pytest.raises(HypervisorUnavailable):
        claim(auditor.tracker)
    other.run("periodic")
    assert claim(auditor.tracker)


def test_no_claim_gets_a_device_while_devices_cannot_be_listed(store, world):
    auditor = auditor_on(store, world, pci=policy())
    tracker = auditor.tracker
    world.plug(gpu(GPU_0))
    auditor.run("start")
    world.unlisted = True
    auditor.run("periodic")
    device = {"extra_specs": {"pci_passthrough:alias": "gpu:1"}}
    with pytest.raises(HypervisorUnavailable, match="could not list the host's devices"):
        tracker.test_claim(instance_claim, request(**device))
    with pytest.raises(HypervisorUnavailable, match="could not list the host's devices"):
        claim(tracker, **device)
    assert claim(tracker)
    world.unlisted = False
    auditor.run("periodic")
    assert claim(tracker, **device).pci


def test_unreadable_domain_is_reported_and_the_others_are_audited(auditor, world):
    world.start_domain(uid(1), 1, 512)
    world.start_domain(uid(2), 2, 512)
    world.unreadable.add(uid(1))
    summary = auditor.run("start")
    assert summary.orphans == 2
    unknown, problem = summary.problems
    assert unknown.message == f"no claim gets any of: {', '.join(sorted(HostResource))}"
    assert problem.item == f"domain {uid(1)}"


def test_mediated_device_that_the_host_does_not_list_is_named(auditor, world):
    world.start_domain(uid(1), 1, 512, occupancy=Occupancy(mdevs=frozenset({uid(7)})))
    unknown, problem = auditor.run("start").problems
    assert unknown.message == "no claim gets any of: devices"
    assert (problem.item, uid(7) in problem.message) == (f"domain {uid(1)}", True)
    world.create_mdev(uid(7), "nvidia-11", GPU_0)
    assert not auditor.run("periodic").problems


def test_audit_that_writes_nothing_neither_begins_nor_ends_granting(auditor, world, store):
    def audit_without_a_store():
        store.fail(StoreUnavailable, times=None, on=("commit", "reload"))
        for _ in range(2):
            summary = auditor.run("periodic")
            assert summary.complete and not summary.good and summary.applied == 0
        store.heal()
        assert auditor.tracker.recover()

    auditor.run("start")
    world.start_domain(uid(1), 1, 512)
    audit_without_a_store()
    assert claim(auditor.tracker)
    world.incomplete, world.unlisted = True, True
    auditor.run("periodic")
    world.incomplete, world.unlisted = False, False
    world.start_domain(uid(2), 1, 512)
    audit_without_a_store()
    assert auditor.tracker.creation.unlisted
    with pytest.raises(HypervisorUnavailable):
        claim(auditor.tracker)
    auditor.run("periodic")
    assert claim(auditor.tracker) and not auditor.tracker.creation.unlisted


def test_many_steps_are_applied_in_chunks(auditor, world):
    """Each chunk is a revision, so that claims get in between."""
    auditor.run("start")
    before = auditor.tracker.snapshot().revision
    for number in range(120):
        world.start_domain(uid(), number % 2, 1)
    assert auditor.run("periodic").applied == 120
    assert auditor.tracker.snapshot().revision - before == 3


def test_nothing_becomes_available_before_what_other_domains_have_is_recorded(auditor, world):
    for number in range(CHUNK + 10):
        world.start_domain(uid(number), 1, 1)
    auditor.run("start")
    order = []
    auditor.tracker.listen(lambda state, _: order.append(set(state.domain_usages)))
    for number in range(CHUNK + 10):
        world.destroy(uid(number))
        world.start_domain(uid(1000 + number), 1, 1)
    auditor.run("periodic")
    assert {uid(1000 + number) for number in range(CHUNK)} <= order[0]
    assert {uid(number) for number in range(CHUNK + 10)} <= order[0]


def test_usage_of_many_domains_is_recorded_by_one_audit(store, world):
    """There are more domains than one chunk has steps: the step of a device is in its domain's
    chunk. A used virtual function outside device_spec must be recorded, or its physical function
    would be available."""
    specs = parse_specs([json.dumps(PF_IDS)])
    auditor = auditor_on(store, world, pci=policy(specs))
    world.plug(*nic())
    for number in range(CHUNK + 10):
        devices = frozenset({vf(0)} if number == 0 else ())
        world.start_domain(uid(number), 1, 64, occupancy=Occupancy(devices=devices))
    assert auditor.run("start").skipped == 0
    state = device_allocations(auditor.tracker.snapshot()).state(PF_0)
    status = (state.state, state.reason)
    assert status == ("unavailable", f"its virtual function {vf(0)} is held by {uid(0)}")


def test_audits_have_their_turns_in_the_order_of_their_requests(auditor, world):
    """Callers that audit without a pause must not delay the service's own audits without limit."""
    order: list[str] = []
    own = threading.Thread(target=auditor.run, args=("periodic",), name="own")

    def note(step: str) -> None:
        if step == "devices":
            order.append(threading.current_thread().name)
        if not own.ident:
            own.start()
            wait_until(lambda: waits(own))

    world.between = note
    auditor.run("request")
    auditor.run("request")
    own.join(60)
    assert order[1] == "own"


def waits(thread: threading.Thread) -> bool:
    """Whether the thread waits for a condition."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == "wait"


def test_resource_views_are_logged_when_they_have_changed(store, world):
    reports = Reports()
    auditor = auditor_on(store, world, reports)

    def views():
        auditor.run("test")
        lines = [line for level, line in reports.logged if level == "info"]
        reports.logged.clear()
        return [line.partition(": ")[0] for line in lines if " resource view: name=" in line]

    every = ["Hypervisor resource view", "Hypervisor/Node resource view", "Final resource view"]
    assert views() == every
    assert views() == []
    world.start_domain(uid(), 1, 512)
    assert views() == every[1:]
    assert views() == []


def test_root_ports_stay_known_while_the_devices_cannot_be_listed(auditor, world):
    port = "0000:00:04.0"
    world.plug(*nic(vfs=1))
    world.root_ports = Map({PF_0: port, vf(0): port})
    auditor.run("start")
    world.unlisted = True
    auditor.run("periodic")
    assert dict(auditor.root_ports) == {PF_0: port, vf(0): port}
    world.unlisted, world.root_ports = False, Map()
    auditor.run("periodic")
    assert dict(auditor.root_ports) == {}


def test_auditor_reports_the_health_of_its_part(store, world):
    reports = Reports()
    world.incomplete = True
    auditor_on(store, world, reports, part="domains").run("start")
    assert {part: status for part, (status, _) in reports.parts.items()} == {"domains": "warn"}


def test_guests_that_were_here_before_a_reboot_are_awaited_until_their_time_is_over(store, world):
    reports, clock = Reports(), ManualClock()
    auditor = auditor_on(store, world, reports, clock)
    auditor.run("start")
    held = claim(auditor.tracker)
    auditor.tracker.change(activate_claim, call("activate_claim"), held.uuid)
    clock.advance(1)
    auditor.await_guests(Reboot(at=clock.now(), until=clock.monotonic() + 60))
    assert auditor.run("periodic").suspects == 0
    assert (list(auditor.awaited), reports.parts["guests"][0]) == ([held.uuid], "warn")
    clock.advance(60)
    assert auditor.run("periodic").suspects == 1
    assert reports.parts["guests"][0] == "pass"
