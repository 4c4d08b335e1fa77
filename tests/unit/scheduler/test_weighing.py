"""Weighing: the enabled weighers, multipliers, the order of the hosts, and the scores."""

from random import Random

import pytest

from rtagent.conf.scheduler import FilterOptions
from rtagent.scheduler.weighers import DiskWeigher, NumInstancesWeigher, RAMWeigher
from rtagent.scheduler.weighing import ALL, HostWeighers
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import ByIoOps, in_order, request_for, weigh, weights


def load(*names):
    return HostWeighers.load(FilterOptions(weight_classes=names), Random(0)).names


@pytest.mark.parametrize("name", ["all", "nova.scheduler.weights.all_weighers"])
def test_all_stands_for_every_weigher(name):
    assert load(name) == ALL
    assert len(ALL) == 13


def test_best_equal_hosts_are_shuffled_if_the_option_says_so():
    hosts = [host_state(name) for name in "abcdef"]
    worse = [host_state(name, failed_builds=1) for name in "xyz"]
    options = FilterOptions(shuffle_best_same_weighed_hosts=True)

    orders = [in_order([*worse, *hosts], options, Random(seed)) for seed in range(20)]

    assert {order[0] for order in orders} == set("abcdef")
    assert all(set(order[:6]) == set("abcdef") and order[6:] == list("xyz") for order in orders)


def test_first_host_is_any_of_the_subset_and_the_others_keep_their_order():
    hosts = [host_state(name, free_ram_mb=ram) for ram, name in enumerate("fedcba")]
    options = FilterOptions(host_subset_size=3)

    orders = [in_order(hosts, options, Random(seed)) for seed in range(20)]

    assert {"".join(order) for order in orders} == {"abcdef", "bacdef", "cabdef"}


@pytest.mark.parametrize("size", [2, 9])
def test_subset_larger_than_the_list_is_the_list_without_hosts_that_cannot_be_weighed(size):
    hosts = [host_state("a", num_io_ops=0), host_state("b", num_io_ops=1)]
    options = FilterOptions(host_subset_size=size)

    for seed in range(10):
        weighers = HostWeighers([ByIoOps(options)], options, Random(seed))
        ordered = weighers.in_order(weighers.weigh(hosts, request_for()))
        assert [each.host.host for each in ordered] == ["b", "a"]


def test_error_of_a_weigher_concerns_only_the_host_that_causes_it():
    hosts = [host_state(str(number), num_io_ops=number) for number in (0, 2, 1, 4)]

    weighed = weigh(ByIoOps, hosts)

    assert list(weights(ByIoOps, hosts)) == ["1", "2", "4", "0"]
    scores = [weighed.scores()[host.uuid][0] for host in hosts]
    assert [score.raw for score in scores] == [None, 30.0, 60.0, 15.0]
    assert [score.normalized for score in scores] == [0.0, 1 / 3, 1.0, 0.0]
    assert scores[0].problem == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize("answer", [(), (1.0, 2.0), (None,), ("1",), (float("nan"),), (1e301,)])
def test_useless_answer_of_a_weigher_leaves_the_decision_to_the_others(answer):
    class Useless(RAMWeigher):
        def weights(self, hosts, request):
            return answer

    hosts = [host_state("a", free_disk_mb=2), host_state("b", free_disk_mb=4)]

    assert list(weights([Useless, DiskWeigher], hosts)) == ["b", "a"]


KEY = RAMWeigher.multiplier_key


def host(name, free, *values):
    """Make a host in one aggregate for each value of the multiplier."""
    found = [aggregate(f"{name}-{place}", name, **{KEY: each}) for place, each in enumerate(values)]
    return host_state(name, aggregates=found, free_ram_mb=free, free_disk_mb=free)


def test_the_smallest_value_of_the_aggregates_overrides_the_option_for_their_hosts():
    hosts = [host("a", 4, "0.5"), host("b", 4), host("c", 2, "10", "4")]
    assert weights(RAMWeigher, hosts) == {"c": 2.0, "b": 1.0, "a": 0.5}
    assert weights([RAMWeigher, DiskWeigher], [host("a", 4, "0"), host("b", 2)])["a"] == 1.0
    counting = aggregate("counting", "a", num_instances_weight_multiplier="2")
    hosts = [host_state("a", aggregates=[counting], num_instances=3), host_state("b")]
    assert weights(NumInstancesWeigher, hosts) == {"a": 2.0, "b": 0.0}  # the option is 0


@pytest.mark.parametrize("value", ["many", "", "nan", "1e999"])
@pytest.mark.parametrize("others", [("2", "0"), ()])
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


def test_weigher_without_key_has_the_multiplier_1():
    hosts = [host_state("a", num_io_ops=60), host_state("b", num_io_ops=1)]

    assert weights(ByIoOps, hosts, FilterOptions(**{KEY: 7.0})) == {"b": 1.0, "a": 0.0}
