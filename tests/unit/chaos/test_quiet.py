"""A quiet period records what was read at a time when no claim changed."""

from __future__ import annotations

from tests.chaos.observation.quiet import READINGS, read_steadily


class Host:
    """A host whose audit ends a claim during each of some readings."""

    def __init__(self, ends: int) -> None:
        self.claims = list(range(20))
        self._ends = ends
        #: The claims at the begin and at the end of each reading.
        self.readings: list[tuple[list[int], list[int]]] = []

    def read(self) -> None:
        before = list(self.claims)
        if len(self.readings) < self._ends:
            self.claims.pop()
        self.readings.append((before, list(self.claims)))


def test_everything_is_read_again_after_a_claim_has_ended():
    host = Host(ends=2)
    settled = 0

    def settle() -> bool:
        nonlocal settled
        settled += 1
        return True

    assert read_steadily(host.read, lambda: list(host.claims), settle)
    before, after = host.readings[-1]
    assert before == after
    assert len(host.readings) == settled == 3


def test_claims_that_change_all_the_time_are_recorded_at_last():
    host = Host(ends=20)
    assert read_steadily(host.read, lambda: list(host.claims), lambda: True)
    assert len(host.readings) == READINGS


def test_nothing_is_read_if_the_views_do_not_agree():
    host = Host(ends=0)
    assert not read_steadily(host.read, lambda: host.claims, lambda: False)
    assert host.readings == []
