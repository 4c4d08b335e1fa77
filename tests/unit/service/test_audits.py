"""When the host is looked at, and what follows when it cannot be."""

import math

import pytest
from msgspec.structs import replace

from rtagent.errors import HypervisorUnavailable, NodeNotReady, StoreUnavailable
from rtagent.ports import HostIdentity
from rtagent.service.audits import GAP, Audits
from rtagent.service.loop import Rest
from rtagent.virt.fake import TOPOLOGY
from tests.builders import call, request, uid


class Told(list):
    """What `Audits` calls back, by name."""

    def of(self, name):
        return lambda *arguments: self.append((name, *arguments))


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def audits(world, told):
    return Audits(
        world.auditor,
        world.tracker,
        world.hypervisor,
        world.gate,
        world.clock,
        world.notes,
        interval=lambda: 60.0,
        returned=told.of("returned"),
        accepts=lambda: True,
        opened=told.of("opened"),
        closed=told.of("closed"),
    )


def causes(world):
    return world.auditor.last.cause


def test_the_first_good_audit_opens_the_gate_once(world, audits, told):
    with pytest.raises(NodeNotReady):
        world.tracker.instance_claim(request(), call())

    rests = [audits.turn(), audits.turn()]

    assert world.tracker.instance_claim(request(), call())
    assert told == [("opened",)]
    assert rests == [Rest(at_least=GAP, at_most=60.0)] * 2
    assert audits.age == 0.0


def test_an_audit_takes_no_more_than_half_of_the_time(world, audits):
    world.hypervisor.between = lambda step: world.clock.advance(5.0 if step == "list" else 0.0)

    assert audits.turn() == Rest(at_least=5.0, at_most=60.0)


def test_an_endless_interval_waits_for_an_event(world, told):
    audits = Audits(
        world.auditor,
        world.tracker,
        world.hypervisor,
        world.gate,
        world.clock,
        world.notes,
        interval=lambda: math.inf,
        returned=told.of("returned"),
        accepts=lambda: True,
        opened=told.of("opened"),
        closed=told.of("closed"),
    )

    assert audits.turn() == Rest(at_least=GAP, at_most=math.inf)


def test_events_share_an_audit(world, audits):
    audits.turn()
    assert causes(world) == "start"

    for cause in ("lifecycle", "device", "lifecycle"):
        audits.because(cause)
    audits.turn()
    assert causes(world) == "device+lifecycle"

    audits.turn()
    assert causes(world) == "periodic"


def test_nothing_is_granted_while_the_host_is_not_known(world, audits, told):
    world.hypervisor.topology = None
    audits.turn()
    with pytest.raises(NodeNotReady, match="what the host is made of is not known yet"):
        world.tracker.instance_claim(request(), call())

    world.hypervisor.topology = TOPOLOGY
    audits.turn()

    assert told == [("opened",)]
    assert world.tracker.instance_claim(request(), call())


def test_an_incomplete_audit_is_repeated_soon(world, audits, told):
    world.hypervisor.incomplete = True

    rests = [audits.turn() for _ in range(3)]

    assert [rest.at_most for rest in rests] == [0.25, 0.5, 1.0]
    assert told == []
    assert causes(world) == "start"


def test_a_hypervisor_that_is_lost_closes_the_gate_until_it_is_back(world, audits, told):
    audits.turn()
    told.clear()
    world.hypervisor.lost = True

    rests = [audits.turn() for _ in range(3)]

    with pytest.raises(HypervisorUnavailable):
        world.tracker.instance_claim(request(), call())
    assert world.notes.parts["hypervisor"] == "fail: the fake hypervisor is lost"
    assert [rest.at_most for rest in rests] == [0.25, 0.5, 1.0]
    assert told == [("closed",)]

    world.hypervisor.lost = False
    audits.turn()

    identity = HostIdentity(hostname=world.hypervisor.hostname, host_uuid="")
    assert told == [("closed",), ("returned", identity), ("opened",)]
    assert causes(world) == "return"
    assert world.tracker.instance_claim(request(), call())


def test_a_loss_between_two_audits_closes_the_gate_at_once(world, audits, told):
    audits.turn()

    audits.lost(HypervisorUnavailable("gone"))

    with pytest.raises(HypervisorUnavailable):
        world.tracker.instance_claim(request(), call())
    assert told == [("opened",), ("closed",)]


def test_a_good_audit_that_began_before_a_loss_does_not_open_the_gate(world, audits, told):
    def lose(step):
        if step == "finish":
            audits.lost(HypervisorUnavailable("gone"))

    audits.turn()
    world.hypervisor.between = lose
    audits.turn()

    with pytest.raises(HypervisorUnavailable):
        world.tracker.instance_claim(request(), call())

    world.hypervisor.between = lambda _: None
    audits.turn()

    assert [name for name, *_ in told] == ["opened", "closed", "returned", "opened"]
    assert causes(world) == "return"


def test_leases_run_anew_when_the_hypervisor_is_back(world, audits):
    audits.turn()
    claim = world.tracker.instance_claim(request(), call())
    world.hypervisor.lost = True
    audits.turn()
    world.clock.advance(world.tracker.snapshot().policy.claim_expiry_time + 1)
    assert world.tracker.lapsed() == {claim.uuid}
    world.hypervisor.lost = False

    audits.turn()

    assert world.tracker.lapsed() == frozenset()
    assert claim.uuid in world.tracker.snapshot().claims


def test_a_store_that_is_down_does_not_open_the_gate(world, audits, told):
    world.store.fail(StoreUnavailable, times=None)

    audits.turn()

    assert told == []
    assert isinstance(world.gate.why_closed, StoreUnavailable)


def test_a_change_of_the_host_is_no_other_hypervisor(world, audits, told):
    audits.turn()
    world.hypervisor.topology = replace(TOPOLOGY, memory_mb=TOPOLOGY.memory_mb * 2)
    world.hypervisor.start_domain(uid(), vcpus=1, memory_mb=64)

    audits.turn()

    assert told == [("opened",)]
    assert world.tracker.snapshot().topology.memory_mb == TOPOLOGY.memory_mb * 2


def test_the_gate_stays_closed_while_the_host_is_not_accepted(world, told):
    answers = iter([False, True])
    audits = Audits(
        world.auditor,
        world.tracker,
        world.hypervisor,
        world.gate,
        world.clock,
        world.notes,
        interval=lambda: 60.0,
        returned=told.of("returned"),
        accepts=lambda: next(answers),
        opened=told.of("opened"),
        closed=told.of("closed"),
    )

    audits.turn()
    assert told == []
    with pytest.raises(NodeNotReady):
        world.tracker.instance_claim(request(), call())

    audits.turn()
    assert told == [("opened",)]
