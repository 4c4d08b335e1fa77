"""A node's record has one writer at a time, known by its epoch; other processes write nothing.

LP1714248, LP1853009, LP1841481: a node was taken over. The old service deleted the record after the
new one had taken it over; the new one had it in memory, and never created it again.

LP1839674: the creation of the record failed once, and counted as done from then on.
"""

from __future__ import annotations

import pytest

from rtagent.errors import StoreUnavailable, WriterFenced
from tests.support.three_hosts import Guests


def test_former_writer_writes_nothing():
    guests = Guests()
    claim = guests.run(0)
    old = guests.trackers[0]
    guests.restart(0)
    now = guests.state(0)
    guests.trackers[0], mine = old, guests.trackers[0]
    with pytest.raises(StoreUnavailable):
        guests.update(0, claim, "deleted")
    assert isinstance(old.fault, WriterFenced)
    guests.trackers[0] = mine
    assert guests.stores[0].load(now.node.uuid).claims == tuple(now.claims.values())


def test_failed_creation_of_a_record_is_repeated():
    guests = Guests()
    guests.stores[1].fail(StoreUnavailable, on=("enroll",))
    with pytest.raises(StoreUnavailable):
        guests.restart(1)
    guests.restart(1)
    assert guests.run(1).state == "active"
