"""When the host is audited, and what follows from the result."""

import math

import pytest

from rtagent.errors import ConfigError, HypervisorUnavailable, NodeNotReady, StoreUnavailable
from rtagent.identity.node_identity import HostNodeIdentity, IdentityOptions
from rtagent.model.policy import NumaPolicy, Policy
from rtagent.service.audits import GAP, Audits
from rtagent.service.context import HypervisorEvent, Reloaded, StoreReturned
from rtagent.service.host_checks import HostChecks
from rtagent.service.loop import LAST, Rest
from rtagent.testing.hypervisor import TOPOLOGY
from tests.support.hosts import uid
from tests.support.trackers import claim
from tests.unit.service.conftest import assert_pauses


@pytest.fixture
def audits(world, tmp_path):
    path = str(tmp_path)
    paths = {"state_path": path, "lock_path": path}
    options = IdentityOptions(host="cn1", host_ip="::1", service_down_time=60, **paths)
    identity = HostNodeIdentity(options, world.notes)
    identity.lock_hypervisor(world.hypervisor.identity())
    checks = HostChecks(world.context, world.node)
    yield Audits(
        world.context,
        world.node,
        world.hypervisor,
        identity,
        world.admission,
        [checks.accept],
        wake=lambda: world.notes.logged.append(("wake", "audit")),
    )
    identity.release()


def causes(world):
    return world.auditor.last.cause


def test_first_good_audit_opens_the_admission_once(world, audits):
    with pytest.raises(NodeNotReady):
        claim(world.tracker)

    rests = [audits.turn(), audits.turn()]

    assert claim(world.tracker)
    assert world.events.seen == ["Granting"]
    assert rests == [Rest(at_least=GAP, at_most=60.0)] * 2
    assert audits.age == 0.0


def test_audits_take_at_most_half_of_the_time(world, audits):
    world.hypervisor.between = lambda step: world.clock.advance(5.0 if step == "list" else 0.0)

    assert audits.turn() == Rest(at_least=5.0, at_most=60.0)


def test_without_periodic_audits_the_next_one_waits_for_an_event(world, audits):
    world.configure(update_resources_interval=-1)

    assert audits.turn() == Rest(at_least=GAP, at_most=math.inf)


def test_several_causes_share_an_audit(world, audits):
    audits.turn()
    assert causes(world) == "start"

    for cause in ("lifecycle", "device", "lifecycle"):
        world.bus.publish(HypervisorEvent(name=cause))
    assert world.notes.logged[-3:] == [("wake", "audit")] * 3
    audits.turn()
    assert causes(world) == "device+lifecycle"

    audits.turn()
    assert causes(world) == "periodic"


def test_no_claim_is_granted_while_the_topology_is_unknown(world, audits):
    world.hypervisor.topology = None
    audits.turn()
    with pytest.raises(NodeNotReady, match="the host's topology is not known yet"):
        claim(world.tracker)

    world.hypervisor.topology = TOPOLOGY
    audits.turn()

    assert world.events.seen == ["Granting"]
    assert claim(world.tracker)


def test_incomplete_audit_closes_the_admission_and_is_repeated_with_back_off(world, audits):
    audits.turn()
    audits.request("device")
    world.hypervisor.incomplete = True

    rests = [audits.turn() for _ in range(3)]

    assert_pauses([rest.at_most for rest in rests], 0.25, 0.5, 1.0)
    assert isinstance(world.admission.why_closed, HypervisorUnavailable)
    assert causes(world) == "device"


def test_audit_that_skips_a_domain_is_repeated_at_once(world, audits):
    def touch(step):
        if step == "finish":
            claim(world.tracker, owner=uid(1))

    audits.turn()
    world.hypervisor.start_domain(uid(1), 1, 64)
    world.hypervisor.between = touch

    assert audits.turn() == Rest(at_least=GAP, at_most=GAP)


def test_devices_that_cannot_be_listed_are_looked_for_again_soon(world, audits):
    world.hypervisor.unlisted = True

    assert audits.turn() == Rest(at_least=GAP, at_most=LAST)


def test_loss_of_the_hypervisor_closes_the_admission_until_it_is_back(world, audits):
    audits.turn()
    world.events.seen.clear()
    world.hypervisor.lost = True

    rests = [audits.turn() for _ in range(3)]

    with pytest.raises(HypervisorUnavailable):
        claim(world.tracker)
    assert world.notes.texts["hypervisor"] == "fail: the connection to the fake hypervisor is lost"
    assert_pauses([rest.at_most for rest in rests], 0.25, 0.5, 1.0)
    assert world.events.seen == ["HypervisorLost"]

    world.hypervisor.lost = False
    audits.turn()

    assert world.events.seen == ["HypervisorLost", "Granting"]
    assert causes(world) == "return"
    assert claim(world.tracker)


def test_unexpected_error_closes_the_admission_until_an_audit_is_good(world, audits):
    def fail(step):
        raise SystemError("virDomainGetXMLDesc returned a result with an exception set")

    audits.turn()
    world.hypervisor.between = fail
    with pytest.raises(SystemError):
        audits.turn()

    assert isinstance(world.admission.why_closed, HypervisorUnavailable)
    assert world.admission.hypervisor_up is False
    assert world.notes.texts["hypervisor"].startswith("fail: the last audit failed: SystemError")
    assert world.events.seen == ["Granting", "HypervisorLost"]

    world.hypervisor.between = lambda _: None
    audits.turn()

    assert world.admission.why_closed is None
    assert world.events.seen == ["Granting", "HypervisorLost", "Granting"]


def test_another_machine_after_a_loss_is_fatal_and_is_not_served(world, audits):
    audits.turn()
    world.hypervisor.lost = True
    audits.turn()

    world.hypervisor.lost, world.hypervisor.hostname = False, "another"
    audits.turn()

    (error,) = world.events.errors
    assert "is another now: if that is intended, start again" in str(error)
    with pytest.raises(HypervisorUnavailable):
        claim(world.tracker)


def test_loss_between_two_audits_closes_the_admission_at_once(world, audits):
    audits.turn()

    world.bus.publish(HypervisorEvent(name="connection"))

    with pytest.raises(HypervisorUnavailable):
        claim(world.tracker)
    assert world.events.seen == ["Granting", "HypervisorLost"]


def test_audit_that_began_before_a_loss_does_not_open_the_admission(world, audits):
    def lose(step):
        if step == "finish":
            audits.lost(HypervisorUnavailable("gone"))

    audits.turn()
    world.hypervisor.between = lose
    audits.turn()

    with pytest.raises(HypervisorUnavailable):
        claim(world.tracker)

    world.hypervisor.between = lambda _: None
    audits.turn()

    assert world.events.seen == ["Granting", "HypervisorLost", "Granting"]
    assert causes(world) == "return"


def test_leases_restart_when_the_hypervisor_is_back(world, audits):
    audits.turn()
    made = claim(world.tracker)
    world.hypervisor.lost = True
    audits.turn()
    world.clock.advance(world.tracker.snapshot().policy.claim_expiry_time + 1)
    assert world.tracker.lapsed() == {made.uuid}
    world.hypervisor.lost = False

    audits.turn()

    assert world.tracker.lapsed() == frozenset()
    assert made.uuid in world.tracker.snapshot().claims


def test_leases_restart_and_the_host_is_audited_when_the_store_is_back(world, audits):
    audits.turn()
    claim(world.tracker)
    world.clock.advance(world.tracker.snapshot().policy.claim_expiry_time + 1)

    world.bus.publish(StoreReturned())
    world.bus.publish(Reloaded())

    assert world.tracker.lapsed() == frozenset()
    audits.turn()
    assert causes(world) == "reload+store"


def test_audit_does_not_open_the_admission_while_the_store_is_down(world, audits):
    world.store.fail(StoreUnavailable, times=None)

    audits.turn()

    assert world.events.seen == []
    assert isinstance(world.admission.why_closed, StoreUnavailable)


def test_admission_stays_closed_while_the_policy_does_not_fit_the_host(world, audits):
    missing = NumaPolicy(cpu_dedicated_set=frozenset({900}))
    world.tracker.set_policy(Policy(numa=missing))

    audits.turn()
    assert world.events.seen == []
    assert [type(error) for error in world.events.errors] == [ConfigError]
    with pytest.raises(NodeNotReady):
        claim(world.tracker)

    world.tracker.set_policy(Policy())
    audits.turn()
    assert world.events.seen == ["Granting"]
