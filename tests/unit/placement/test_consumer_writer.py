"""Writes of consumers: the fewest requests, and nothing of other writers is lost."""

import pytest

from rtagent.errors import PlacementConflict, PlacementError
from rtagent.model.consumers import INSTANCE
from rtagent.placement.consumers import ConsumerWriter, WantedConsumer
from rtagent.testing.placement import MemoryPlacement
from tests.support.allocating_agents import RECORD
from tests.support.hosts import uid

HERE, THERE = uid(), uid()
SHARED = uid()


class Own(frozenset[str]):
    shared_disk = SHARED


OWN = Own({HERE})


class Setup:
    def __init__(self):
        self.api = MemoryPlacement()
        for uuid in (HERE, THERE, SHARED):
            self.api.create_provider(uuid, f"p{uuid}")
            self.api.put_inventories(uuid, 0, {"VCPU": RECORD})
        self.writer = ConsumerWriter(self.api)
        self.requests()

    def requests(self):
        found = list(self.api.requests)
        self.api.requests.clear()
        return found

    def write(self, *groups):
        return self.writer.write([list(group) for group in groups], OWN)

    def vcpus(self, uuid):
        """What a consumer has, by provider."""
        found = self.api.consumer(uuid)["allocations"]
        self.api.requests.pop()
        return {provider: part["resources"]["VCPU"] for provider, part in found.items()}

    def other_writer(self, uuid, generation, **vcpus):
        parts = {provider: {"resources": {"VCPU": n}} for provider, n in vcpus.items()}
        body = {"project_id": "p", "user_id": "u", "consumer_type": INSTANCE}
        content = {"allocations": parts, "consumer_generation": generation, **body}
        self.api.put_consumer(uuid, content)
        self.api.requests.pop()


@pytest.fixture
def setup():
    return Setup()


def wanted(uuid, vcpus=0, *, is_new=False, **fields):
    parts = {HERE: {"VCPU": vcpus}} if vcpus else {}
    fields = {"project_id": "p", "user_id": "u", "consumer_type": INSTANCE, **fields}
    return WantedConsumer(uuid=uuid, parts=parts, is_new=is_new, **fields)


def test_parts_on_other_providers_are_kept(setup):
    consumer = uid()
    setup.other_writer(consumer, None, **{THERE: 3})
    setup.write([wanted(consumer, 2)])
    assert setup.vcpus(consumer) == {HERE: 2, THERE: 3}
    setup.write([wanted(consumer)])
    assert setup.vcpus(consumer) == {THERE: 3}


def test_project_user_and_type_of_an_existing_consumer_are_kept_if_the_claim_has_none(setup):
    for vcpus in (1, 0):
        consumer = uid()
        setup.other_writer(consumer, None, **{HERE: 2, THERE: 3})
        setup.write([wanted(consumer, vcpus, project_id=None, user_id=None)])
        assert setup.vcpus(consumer).get(HERE, 0) == vcpus
        found = setup.api.consumer(consumer)
        kept = (found["project_id"], found["user_id"], found["consumer_type"])
        assert kept == ("p", "u", INSTANCE)


def test_a_consumer_that_others_wrote_is_read_again(setup):
    consumer = uid()
    setup.other_writer(consumer, None, **{THERE: 3})
    setup.write([wanted(consumer, 2, is_new=True)])
    assert setup.requests() == ["put_consumer", "consumer", "put_consumer"]
    setup.other_writer(consumer, 2, **{THERE: 1, HERE: 9})
    setup.write([wanted(consumer, 4)])
    assert setup.vcpus(consumer) == {HERE: 4, THERE: 1}


def test_what_placement_has_already_is_not_written(setup):
    consumer = uid()
    setup.write([wanted(consumer, 2, is_new=True)])
    setup.requests()
    setup.write([wanted(consumer, 2)])
    assert setup.requests() == []


def test_a_consumer_whose_first_write_was_interrupted_is_written(setup):
    consumer = uid()
    setup.api.interrupt_consumer(consumer)
    assert setup.write([wanted(consumer, 2, is_new=True)]) == {}
    assert setup.vcpus(consumer) == {HERE: 2}
    setup.write([wanted(consumer, 3)])
    assert setup.vcpus(consumer) == {HERE: 3}


def test_shared_disk_stays_with_the_other_host_of_a_consumer(setup):
    consumer, other = uid(), uid()
    for uuid, parts in ((consumer, {THERE: 1, SHARED: 2}), (other, {SHARED: 2})):
        setup.other_writer(uuid, None, **parts, **{HERE: 1})
        setup.write([wanted(uuid)])
    assert setup.vcpus(consumer) == {THERE: 1, SHARED: 2}
    assert setup.vcpus(other) == {}


def test_one_refused_group_does_not_stop_the_others(setup):
    good, large, other = uid(), uid(), uid()
    groups = ([wanted(uuid, n, is_new=True)] for uuid, n in ((good, 1), (large, 1001), (other, 2)))
    failed = setup.write(*groups)
    assert set(failed) == {large}
    assert isinstance(failed[large], PlacementConflict)
    assert (setup.vcpus(good), setup.vcpus(large), setup.vcpus(other)) == ({HERE: 1}, {}, {HERE: 2})


def test_a_refusal_is_returned(setup):
    setup.api.failures["put_consumer"] = PlacementError("no such class", status=400)
    consumer = uid()
    assert set(setup.write([wanted(consumer, 1, is_new=True)])) == {consumer}
    setup.api.failures.clear()
    assert setup.write([wanted(consumer, 1)]) == {}


@pytest.mark.parametrize("groups", [1, 2])
def test_an_answer_that_is_not_about_a_consumer_is_raised(setup, groups):
    setup.api.failure = PlacementError("not an answer of Placement", status=404)
    with pytest.raises(PlacementError):
        setup.write(*([wanted(uid(), 1, is_new=True)] for _ in range(groups)))
    assert len(setup.requests()) == 1
