"""LP1714248, LP1853009, LP1841481: a node that changed hands. The old owner deleted the record
after the new one had taken it over; the new one, which remembered it, never made it again.

LP1839674: creating the record failed once, and was taken for done from then on.

A record has one writer at a time, known by its epoch; who is not it writes nothing.
"""

from __future__ import annotations

import pytest

from rtagent.errors import StoreUnavailable, WriterFenced
from tests.moving_guests import Guests


def test_who_was_taken_over_writes_nothing_any_more():
    guests = Guests()
    claim = guests.run(0)
    old = guests.trackers[0]
    guests.restart(0)
    now = guests.state(0)
    guests.trackers[0], mine = old, guests.trackers[0]
    with pytest.raises(StoreUnavailable):
        guests.tell(0, claim, "deleted")
    assert isinstance(old.fault, WriterFenced)
    guests.trackers[0] = mine
    assert guests.stores[0].load(now.node.uuid).claims == tuple(now.claims.values())


def test_a_record_that_could_not_be_made_is_made_the_next_time():
    guests = Guests()
    guests.stores[1].fail(StoreUnavailable, on=("enroll",))
    with pytest.raises(StoreUnavailable):
        guests.restart(1)
    guests.restart(1)
    assert guests.run(1).state == "active"
