"""The rules of changes to host aggregates."""

from __future__ import annotations

import pytest

from rtagent.scheduler import aggregate_rules as rules
from rtagent.scheduler.errors import AggregateNotFound
from tests.support.host_states import aggregate


def test_uuid_is_looked_for_before_the_name():
    one, two = aggregate("one"), aggregate("two")
    odd = aggregate(one.uuid)  # its name is the uuid of another
    assert rules.find((odd, two, one), one.uuid) == one
    assert rules.find((odd, two, one), "two") == two
    with pytest.raises(AggregateNotFound, match="there is no aggregate three"):
        rules.find((one, two), "three")


def test_keys_that_are_not_named_stay():
    before = aggregate("a", k="1", gone="2")
    after = rules.with_metadata(before, {"gone": None, "absent": None, "new": ""})
    assert after.metadata == {"k": "1", "new": ""} and after.name == "a"


def test_zone_may_be_changed_if_its_hosts_are_in_no_other():
    north, south = aggregate("n", "cn1", availability_zone="n"), aggregate("s", "cn2")
    rules.check(rules.with_metadata(south, {"availability_zone": "s"}), (north, south))
    rules.check(rules.with_metadata(north, {"availability_zone": "s"}), (north, south))
