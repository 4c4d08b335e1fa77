"""Multipliers of weighers: by option, and by the metadata of aggregates."""

import pytest

from rtagent.conf.filter_scheduler import FilterOptions
from rtagent.scheduler.weighers import DiskWeigher, NumInstancesWeigher, RAMWeigher
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import ByIoOps, weigh, weights

KEY = RAMWeigher.multiplier_key


def host(name, free, *values):
    """Make a host in one aggregate for each value of the multiplier."""
    found = [aggregate(f"{name}-{place}", name, **{KEY: each}) for place, each in enumerate(values)]
    return host_state(name, aggregates=found, free_ram_mb=free, free_disk_mb=free)


def test_aggregate_overrides_the_option_for_its_hosts():
    hosts = [host("a", 4, "0.5"), host("b", 4), host("c", 2, "4")]

    assert weights(RAMWeigher, hosts) == {"c": 2.0, "b": 1.0, "a": 0.5}


def test_smallest_of_several_values_counts():
    assert weights(RAMWeigher, [host("a", 4, "10", "-2e0", "3")]) == {"a": -2.0}


def test_aggregate_overrides_an_option_of_0():
    counting = aggregate("counting", "a", num_instances_weight_multiplier="2")
    hosts = [host_state("a", aggregates=[counting], num_instances=3), host_state("b")]

    assert weights(NumInstancesWeigher, hosts) == {"a": 2.0, "b": 0.0}


def test_other_weighers_keep_their_multipliers():
    hosts = [host("a", 4, "0"), host("b", 2)]

    assert weights([RAMWeigher, DiskWeigher], hosts) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize("value", ["many", "", "nan", "inf", "1e999"])
@pytest.mark.parametrize("others", [("2",), ("2", "0"), ()])
def test_host_with_bad_metadata_comes_after_all_others_and_is_named(value, others):
    wrong, better = host("wrong", 9, *others, value), host("better", 3)
    hosts = [wrong, better, host("best", 6)]
    weighed = weigh(RAMWeigher, hosts)

    (score,) = weighed.scores()[wrong.uuid]

    assert list(weights(RAMWeigher, hosts)) == ["best", "better", "wrong"]
    assert weighed.set_aside
    assert score.problem == (
        f"{KEY} of aggregate wrong-{len(others)} is {value!r}, which is not a finite number"
    )
    assert weighed.scores()[better.uuid][0].problem == ""


def test_only_host_with_bad_metadata_is_still_selected():
    assert list(weights(RAMWeigher, [host("wrong", 9, "many")])) == ["wrong"]


def test_weigher_without_key_has_the_multiplier_1():
    hosts = [host_state("a", num_io_ops=60), host_state("b", num_io_ops=1)]

    assert weights(ByIoOps, hosts, FilterOptions(**{KEY: 7.0})) == {"b": 1.0, "a": 0.0}
