"""``num_instances`` and ``running_vms`` count a guest on one host, also while it moves.

A guest that was to arrive was counted from its claim on, and at its source until the move was
confirmed.
"""

import pytest

from rtagent.state.compute_node import compute_node
from tests.support.agents import agents, check_all, facts


class Counted:
    """A running guest, and its move to the second host, or on the first one."""

    def __init__(self, kind: str = "resize", dest: int = 1) -> None:
        self.hosts = agents()
        self.hosts[0].run()
        self.migration = facts(kind, source_compute="h1", dest_compute=f"h{dest + 1}")
        self.hosts[dest].claim_move(self.migration)

    def move(self, host: int, *verbs: str) -> None:
        """Make calls of the move at a host."""
        for verb in verbs:
            self.hosts[host].move(verb, self.migration)

    @property
    def numbers(self) -> list[int]:
        """The number of instances of each host, whose invariants are checked."""
        check_all(self.hosts)
        records = [compute_node(host.state) for host in self.hosts]
        numbers = [record["running_vms"] for record in records]
        assert [record["stats"].get("num_instances", 0) for record in records] == numbers
        return numbers


@pytest.mark.parametrize("kind", ["resize", "migration"])
def test_guest_is_counted_where_it_is_before_and_after_a_cold_move(kind):
    guest = Counted(kind)
    assert guest.numbers == [1, 0]
    guest.move(0, "start_move_out")
    assert guest.numbers == [0, 0]
    guest.move(1, "finish_move")
    assert guest.numbers == [0, 1]
    guest.hosts[0].start()
    guest.move(0, "drop_move_claim_at_source")
    assert guest.numbers == [0, 1]


def test_guest_of_a_reverted_move_is_counted_at_its_source():
    guest = Counted()
    guest.move(0, "start_move_out")
    guest.move(1, "finish_move", "drop_move_claim_at_dest")
    assert guest.numbers == [0, 0]
    guest.move(0, "finish_revert")
    assert guest.numbers == [1, 0]


def test_guest_runs_at_its_source_until_a_live_migration_ends():
    guest = Counted("live-migration")
    guest.move(0, "start_move_out")
    assert guest.numbers == [1, 0]
    guest.hosts[0].start()
    assert guest.numbers == [1, 0]
    guest.move(1, "finish_move")
    guest.move(0, "drop_move_claim_at_source")
    assert guest.numbers == [0, 1]


@pytest.mark.parametrize("kind", ["resize", "live-migration"])
def test_guest_of_a_failed_move_is_counted_at_its_source(kind):
    guest = Counted(kind)
    guest.move(0, "start_move_out")
    for host in (1, 0):
        guest.move(host, "drop_move_claim")
    assert guest.numbers == [1, 0]


def test_evacuated_guest_is_counted_from_its_arrival_on():
    guest = Counted("evacuation")
    assert guest.numbers[1] == 0
    guest.move(1, "finish_evacuation")
    guest.move(0, "drop_move_claim_at_source")
    assert guest.numbers == [0, 1]


@pytest.mark.parametrize(
    "ends", [["drop_move_claim_at_source"], ["drop_move_claim_at_dest", "finish_revert"]]
)
def test_guest_that_is_resized_on_its_host_is_counted_once_throughout(ends):
    guest = Counted(dest=0)
    assert guest.numbers == [1, 0]
    for verb in ("start_move_out", "finish_move", *ends):
        guest.move(0, verb)
        assert guest.numbers == [1, 0], verb
