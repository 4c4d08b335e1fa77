"""Allocations that a selection writes, and takes back."""

from __future__ import annotations

import pytest

from rtagent.errors import PlacementConflict, PlacementUnavailable
from rtagent.placement.candidates import PlacementCandidates
from rtagent.scheduler.errors import ConsumerHasAllocations
from rtagent.scheduler.ports import ADD, NEW, REPLACE, AllocationRequest
from rtagent.testing.placement import MemoryPlacement
from tests.support.hosts import uid

SOURCE, TARGET = uid(), uid()
RECORD = {
    "total": 10,
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 10,
    "step_size": 1,
    "allocation_ratio": 1.0,
}


class LostAnswers(MemoryPlacement):
    """Placement, of which the answer to the next write is lost. :ivar lost: it was written."""

    lost: bool | None = None

    def put_consumer(self, uuid, content):
        lost, self.lost = self.lost, None
        if lost is not False:
            super().put_consumer(uuid, content)
        if lost is not None:
            raise PlacementUnavailable("PUT: timed out")


class Setup:
    def __init__(self):
        self.api, self.owner = LostAnswers(), uid()
        for uuid in (SOURCE, TARGET):
            self.api.create_provider(uuid, f"p{uuid}")
            self.api.put_inventories(uuid, 0, {"VCPU": RECORD})
        self.port = PlacementCandidates(lambda: self.api)

    def request(self, existing, number=2, at=TARGET):
        return AllocationRequest(
            consumer_uuid=self.owner,
            allocations={at: {"resources": {"VCPU": number}}},
            mappings={},
            project_id="p",
            user_id="u",
            existing=existing,
        )

    @property
    def vcpus(self):
        """What the consumer has, by provider."""
        found = self.api.consumer(self.owner)["allocations"]
        return {uuid: part["resources"]["VCPU"] for uuid, part in found.items()}


@pytest.fixture
def setup():
    return Setup()


@pytest.mark.parametrize("existing", [NEW, REPLACE, ADD])
@pytest.mark.parametrize("written", [True, False])
def test_a_write_without_an_answer_leaves_nothing(setup, existing, written):
    setup.api.lost = written
    with pytest.raises(PlacementUnavailable):
        setup.port.write(setup.request(existing))
    assert setup.vcpus == {}


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


def test_too_much_is_a_conflict(setup):
    with pytest.raises(PlacementConflict):
        setup.port.write(setup.request(NEW, 11))
    assert setup.vcpus == {}
