"""``num_instances`` and ``running_vms`` count a guest on one host, also while it moves.

A guest that was to arrive was counted from its claim on, and at its source until the move was
confirmed.
"""

import pytest

from rtagent.state.compute_node import compute_node
from tests.support.three_hosts import Guests


class Counted(Guests):
    def numbers(self) -> list[int]:
        """Return the number of instances of each host, and check the invariants."""
        self.check_all()
        records = [compute_node(self.state(host)) for host in range(3)]
        numbers = [record["running_vms"] for record in records]
        assert [record["stats"].get("num_instances", 0) for record in records] == numbers
        return numbers


@pytest.mark.parametrize("kind", ["resize", "migration"])
def test_guest_is_counted_where_it_is_before_and_after_a_cold_move(kind):
    guests = Counted()
    guest = guests.run(0)
    _, migration = guests.claim_move(1, guest, kind)
    assert guests.numbers() == [1, 0, 0]
    guests.move(0, "start_move_out", guest, migration)
    assert guests.numbers() == [0, 0, 0]
    guests.move(1, "finish_move", guest, migration)
    assert guests.numbers() == [0, 1, 0]
    guests.restart(0)
    guests.move(0, "drop_move_claim_at_source", guest, migration)
    assert guests.numbers() == [0, 1, 0]


def test_guest_of_a_reverted_move_is_counted_at_its_source():
    guests = Counted()
    guest = guests.run(0)
    _, migration = guests.claim_move(1, guest)
    guests.move(0, "start_move_out", guest, migration)
    guests.move(1, "finish_move", guest, migration)
    guests.move(1, "drop_move_claim_at_dest", guest, migration)
    assert guests.numbers() == [0, 0, 0]
    guests.move(0, "finish_revert", guest, migration)
    assert guests.numbers() == [1, 0, 0]


def test_guest_runs_at_its_source_until_a_live_migration_ends():
    guests = Counted()
    guest = guests.run(0)
    _, migration = guests.claim_move(1, guest, "live-migration")
    guests.move(0, "start_move_out", guest, migration)
    assert guests.numbers() == [1, 0, 0]
    guests.restart(0)
    assert guests.numbers() == [1, 0, 0]
    guests.move(1, "finish_move", guest, migration)
    guests.move(0, "drop_move_claim_at_source", guest, migration)
    assert guests.numbers() == [0, 1, 0]


@pytest.mark.parametrize("kind", ["resize", "live-migration"])
def test_guest_of_a_failed_move_is_counted_at_its_source(kind):
    guests = Counted()
    guest = guests.run(0)
    _, migration = guests.claim_move(1, guest, kind)
    guests.move(0, "start_move_out", guest, migration)
    for host in (1, 0):
        guests.move(host, "drop_move_claim", guest, migration)
    assert guests.numbers() == [1, 0, 0]


def test_evacuated_guest_is_counted_from_its_arrival_on():
    guests = Counted()
    guest = guests.run(0)
    _, migration = guests.claim_move(1, guest, "evacuation")
    assert guests.numbers()[1] == 0
    guests.move(1, "finish_evacuation", guest, migration)
    guests.move(0, "drop_move_claim_at_source", guest, migration)
    assert guests.numbers() == [0, 1, 0]


@pytest.mark.parametrize("end", ["confirmed", "reverted"])
def test_guest_that_is_resized_on_its_host_is_counted_once_throughout(end):
    guests = Counted()
    guest = guests.run(0)
    _, migration = guests.claim_move(0, guest)
    assert guests.numbers() == [1, 0, 0]
    confirmed = ["drop_move_claim_at_source"]
    reverted = ["drop_move_claim_at_dest", "finish_revert"]
    for verb in ("start_move_out", "finish_move", *(confirmed if end == "confirmed" else reverted)):
        guests.move(0, verb, guest, migration)
        assert guests.numbers() == [1, 0, 0], verb
