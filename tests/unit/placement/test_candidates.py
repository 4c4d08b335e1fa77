"""Allocations that a selection writes, and takes back."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rtagent.errors import PlacementConflict, PlacementUnavailable
from rtagent.placement.candidates import PlacementCandidates
from rtagent.scheduler.errors import ConsumerHasAllocations
from rtagent.scheduler.ports import ADD, NEW, REPLACE, AllocationRequest
from rtagent.testing.placement import MemoryPlacement
from tests.servers.daemon import PATIENCE, wait_until
from tests.support.allocating_agents import RECORD
from tests.support.hosts import uid

SOURCE, TARGET = uid(), uid()


class LostAnswers(MemoryPlacement):
    """Placement, of which answers to writes may be lost.

    :ivar lost: of the next consumer: it was written. :ivar lost_together: of several.
    :ivar together: numbers of consumers that were written at once.
    """

    def __init__(self):
        super().__init__()
        self.lost: bool | None = None
        self.lost_together: bool | None = None
        self.together: list[int] = []
        self.writing, self.may_write = threading.Event(), threading.Event()
        self.may_write.set()
        self._one_by_one = threading.Lock()

    def put_consumer(self, uuid, content):
        write = super().put_consumer
        lost, self.lost = self.lost, None
        self._answer(lambda: write(uuid, content), lost)

    def post_consumers(self, contents):
        self.together.append(len(contents))
        write = super().post_consumers
        self._answer(lambda: write(contents), self.lost_together)

    def _answer(self, write, lost):
        """Write as soon as the test says so."""
        self.writing.set()
        assert self.may_write.wait(PATIENCE)
        if lost is not False:
            with self._one_by_one:
                write()
        if lost is not None:
            raise PlacementUnavailable("PUT: timed out")


class Setup:
    def __init__(self):
        self.api, self.owner = LostAnswers(), uid()
        for uuid in (SOURCE, TARGET):
            self.api.create_provider(uuid, f"p{uuid}")
            self.api.put_inventories(uuid, 0, {"VCPU": RECORD})
        self.port = PlacementCandidates(lambda: self.api)

    def request(self, existing, number=2, at=TARGET, owner=None):
        owner = {"consumer_uuid": owner or self.owner, "project_id": "p", "user_id": "u"}
        parts = {at: {"resources": {"VCPU": number}}}
        return AllocationRequest(allocations=parts, mappings={}, existing=existing, **owner)

    @property
    def vcpus(self):
        """What the consumer has, by provider."""
        return self.vcpus_of(self.owner)

    def vcpus_of(self, owner):
        found = self.api.consumer(owner)["allocations"]
        return {uuid: part["resources"]["VCPU"] for uuid, part in found.items()}

    def together(self, requests):
        """Write requests of which all but the first are sent together; return their errors."""
        self.api.may_write.clear()
        with ThreadPoolExecutor(len(requests)) as threads:
            calls = [threads.submit(self.port.write, requests[0])]
            assert self.api.writing.wait(PATIENCE)
            calls += [threads.submit(self.port.write, each) for each in requests[1:]]
            wait_until(lambda: self.port.waiting == len(requests) - 1)
            self.api.may_write.set()
            return [call.exception(PATIENCE) for call in calls]


@pytest.fixture
def setup():
    return Setup()


@pytest.mark.parametrize("written", [True, False])
def test_what_the_source_has_outlives_a_write_without_an_answer(setup, written):
    setup.port.write(setup.request(NEW, 3, SOURCE))
    setup.api.lost = written
    with pytest.raises(PlacementUnavailable):
        setup.port.write(setup.request(ADD))
    assert setup.vcpus == {SOURCE: 3}
    with pytest.raises(ConsumerHasAllocations):
        setup.port.write(setup.request(NEW))
    assert setup.vcpus == {SOURCE: 3}


def test_undo_writes_what_was_there_before(setup):
    setup.port.write(setup.request(NEW, 3, SOURCE))
    added = setup.port.write(setup.request(ADD))
    assert setup.vcpus == {SOURCE: 3, TARGET: 2}
    setup.port.undo(added)
    assert setup.vcpus == {SOURCE: 3}


@pytest.mark.parametrize("number", [2, 4])
def test_undo_keeps_what_another_caller_has_written_since(setup, number):
    slow = setup.port.write(setup.request(REPLACE))
    # The request was repeated at another scheduler, which may have selected the same.
    setup.port.write(setup.request(REPLACE, number))
    setup.port.undo(slow)
    assert setup.vcpus == {TARGET: number}


def test_a_write_that_is_refused_does_not_fail_those_that_are_sent_with_it(setup):
    numbers = {uid(): number for number in (1, 2, 1001, 3)}
    errors = setup.together([setup.request(NEW, n, owner=owner) for owner, n in numbers.items()])
    assert [isinstance(each, PlacementConflict) for each in errors] == [False, False, True, False]
    assert [setup.vcpus_of(owner).get(TARGET) for owner in numbers] == [1, 2, None, 3]


def test_a_repeated_write_finds_the_first_one(setup):
    other, repeated = uid(), uid()
    requests = [setup.request(NEW, 2, owner=owner) for owner in (other, repeated, repeated)]
    errors = setup.together(requests)
    names = sorted(type(each).__name__ for each in errors)
    assert names == ["ConsumerHasAllocations", "NoneType", "NoneType"]
    assert setup.vcpus_of(repeated) == {TARGET: 2}


@pytest.mark.parametrize("written", [True, False])
def test_writes_without_an_answer_leave_nothing(setup, written):
    owners = [uid() for _ in range(3)]
    setup.api.lost_together = written
    errors = setup.together([setup.request(NEW, 2, owner=owner) for owner in owners])
    assert errors[0] is None
    assert [type(each) for each in errors[1:]] == [PlacementUnavailable] * 2
    assert [setup.vcpus_of(owner) for owner in owners] == [{TARGET: 2}, {}, {}]
