"""Operations: one effect for each operation id, and what a repeat is answered; facts."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from rtagent import claims, errors
from rtagent.claims import activate_claim, drain, instance_claim
from rtagent.lifecycle.adopt_claim import adopt_claim
from rtagent.model.claim import ACTIVE
from rtagent.model.decision import Granted
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.memory_store import Disk, MemoryStore
from tests.support.claims import stated
from tests.support.hosts import NODE, NOON, call, request, uid
from tests.support.trackers import claim, release, tracker_on


@pytest.fixture
def tracker():
    return tracker_on(MemoryStore())


def test_repeat_returns_the_claim_as_it_is_now(tracker):
    build, same = request(), call()
    made = claim(tracker, build, same)
    tracker.change(activate_claim, call("activate_claim"), made.uuid)
    again = claim(tracker, build, same)
    assert (again.uuid, again.state) == (made.uuid, ACTIVE)
    assert len(tracker.snapshot().claims) == 1


def test_other_content_under_the_same_operation_id_is_a_conflict(tracker):
    build, first = request(), call()
    claim(tracker, build, first)
    with pytest.raises(errors.ClaimConflict, match="was used for another"):
        claim(tracker, build, call(operation_id=first.operation_id, digest="other"))


@pytest.mark.parametrize("verb", ["abort_instance_claim", "release_claim"])
def test_ending_a_claim_is_idempotent_and_may_precede_its_creation(tracker, verb):
    creation, same = call(), call(verb)
    for operation in (same, same, call(verb)):
        tracker.execute(getattr(claims, verb), operation, creation.operation_id)
    with pytest.raises(errors.ClaimExpired):
        claim(tracker, asked=creation)


def test_refusal_is_not_recorded_and_a_repeat_is_decided_again(tracker):
    big = claim(tracker, vcpus=8)
    build, same = request(1), call()
    with pytest.raises(errors.ComputeResourcesUnavailable) as caught:
        claim(tracker, build, same)
    assert [reason["resource"] for reason in caught.value.kwargs["reasons"]] == ["VCPU"]
    release(tracker, big.uuid)
    assert claim(tracker, build, same).uuid == same.operation_id


def test_rejected_rows_are_an_error_of_the_call():
    store = FailingStore(MemoryStore())
    tracker = tracker_on(store)
    store.fail(lambda: errors.ChangeRejected("value too long"))
    with pytest.raises(errors.InvalidRequest, match="value too long"):
        claim(tracker)
    assert not tracker.snapshot().claims
    assert claim(tracker)


def test_operation_id_of_another_node_in_the_database_is_a_conflict():
    disk, asked = Disk(), call()
    claim(tracker_on(MemoryStore(disk)), asked=asked)
    other_node = replace(NODE, uuid=uid(), hypervisor_hostname="hv2.example")
    with pytest.raises(errors.ClaimConflict, match="another node of this database has it"):
        claim(tracker_on(MemoryStore(disk), node=other_node), asked=asked)


def test_creation_can_be_suspended_while_other_calls_go_on(tracker):
    made = claim(tracker)
    tracker.creation.suspend(errors.HypervisorUnavailable())
    for create in (lambda: claim(tracker), lambda: tracker.test_claim(instance_claim, request())):
        with pytest.raises(errors.HypervisorUnavailable):
            create()
    tracker.change(activate_claim, call("activate_claim"), made.uuid)
    tracker.creation.suspend(None)
    assert claim(tracker)


def test_an_audit_may_list_the_devices_while_a_claim_with_some_is_decided(tracker):
    tracker.creation.unlisted = errors.HypervisorUnavailable("they could not be listed")

    def claims():
        tracker.creation.unlisted = None
        yield SimpleNamespace(pci=("a device",))

    with pytest.raises(errors.HypervisorUnavailable):
        tracker.test_claim(lambda *_: Granted(call().change(NOON), claims()))


def test_node_that_drains_adopts():
    tracker = tracker_on(MemoryStore())
    tracker.execute(drain, call("drain"), "maintenance", None)
    with pytest.raises(errors.NodeDraining):
        claim(tracker)
    tracker.change(adopt_claim, call("adopt"), stated())
    assert len(tracker.snapshot().claims) == 1
