"""Weighing: the order of hosts and aggregates never matters, normalised weights are from 0 to 1,
and weighing one host again is the same as weighing all.
"""

import math
from datetime import UTC, datetime
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent.conf.scheduler import FilterOptions, Metrics
from rtagent.model.metric import Metric
from rtagent.model.node import Aggregate
from rtagent.scheduler.weighing import HostWeighers
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import UUID, group, request_for

SMALL = st.integers(-3, 5)
#: Values of metadata, also such as are no numbers.
VALUES = st.sampled_from(["1", "0", "-2", "2.5", "nan", "many"])
KEYS = st.sampled_from(["ram_weight_multiplier", "io_ops_weight_multiplier", "zone"])
MEASURED = st.sampled_from([1.0, -2.0, 0.5, math.nan, math.inf])
FINITE = st.sampled_from([1.0, -2.0, 0.5])
MULTIPLIERS = {
    f"{name}_weight_multiplier": st.sampled_from([0.0, 1.0, -1.5, 1000.0])
    for name in ("ram", "cpu", "disk", "io_ops", "num_instances", "pci", "build_failure")
}
OPTIONS = st.builds(
    FilterOptions,
    **MULTIPLIERS,
    metrics=st.builds(
        Metrics,
        weight_setting=st.dictionaries(st.sampled_from("xy"), st.sampled_from([0.0, 1.0, -0.5])),
        required=st.booleans(),
        weight_multiplier=st.sampled_from([0.0, 1.0, -1.0]),
    ),
)
HOSTS = [host_state(f"cn{place}") for place in range(6)]
REQUEST = request_for(instance_group=group("soft-affinity", *map(UUID, range(4))))


@st.composite
def fields(draw, measured=MEASURED):
    """The fields of a host that weighers read."""
    now = datetime(2026, 6, 1, tzinfo=UTC)
    return {
        "free_ram_mb": draw(SMALL),
        "free_disk_mb": draw(SMALL),
        "vcpus_used": draw(st.integers(6, 9)),
        "num_io_ops": draw(st.integers(0, 2)),
        "num_instances": draw(st.integers(0, 2)),
        "failed_builds": draw(st.integers(0, 1)),
        "available_devices": draw(st.integers(0, 2)),
        "instances_here": frozenset(map(UUID, draw(st.sets(st.integers(0, 5), max_size=3)))),
        "metrics": tuple(
            Metric(name=name, value=value, timestamp=now)
            for name, value in draw(st.dictionaries(st.sampled_from("xy"), measured)).items()
        ),
    }


def aggregates():
    metadata = st.dictionaries(KEYS, VALUES, max_size=2)
    return st.lists(metadata, max_size=2).map(
        lambda found: tuple(aggregate(str(place), **each) for place, each in enumerate(found))
    )


def hosts(least=0, measured=MEASURED, clean=False):
    each = st.tuples(fields(measured), st.just(()) if clean else aggregates())
    made = st.lists(each, min_size=least, max_size=6)
    return made.map(
        lambda found: [
            replace(HOSTS[place], aggregates=in_, **each) for place, (each, in_) in enumerate(found)
        ]
    )


def results(weighers, weighed):
    ordered = [(each.host.host, each.weight) for each in weighers.in_order(weighed)]
    return ordered, weighed.scores()


@given(OPTIONS, hosts(), st.randoms(use_true_random=False))
def test_order_of_hosts_and_aggregates_never_matters(options, found, random):
    weighers = HostWeighers.load(options, Random(0))
    expected = results(weighers, weighers.weigh(found, REQUEST))

    mixed = [_shuffled(random, host) for host in found]
    random.shuffle(mixed)
    ordered, scores = results(weighers, weighers.weigh(mixed, REQUEST))

    assert ordered == expected[0]
    assert {uuid: _numbers(each) for uuid, each in scores.items()} == {
        uuid: _numbers(each) for uuid, each in expected[1].items()
    }


@given(OPTIONS, hosts())
def test_normalised_weights_are_from_0_to_1_and_every_host_is_listed(options, found):
    weighers = HostWeighers.load(options, Random(0))

    ordered, scores = results(weighers, weighers.weigh(found, REQUEST))

    assert sorted(name for name, _ in ordered) == sorted(host.host for host in found)
    assert all(math.isfinite(weight) for _, weight in ordered)
    assert all(0.0 <= score.normalized <= 1.0 for each in scores.values() for score in each)
    healthy = {host.host for host in found if not any(each.problem for each in scores[host.uuid])}
    assert {name for name, _ in ordered[: len(healthy)]} == healthy


@given(OPTIONS, hosts(least=1), st.data())
def test_weighing_one_host_again_is_the_same_as_weighing_all(options, found, data):
    _change_some(options, found, data, fields(), aggregates())


@given(OPTIONS, hosts(1, FINITE, clean=True), st.data())
def test_the_same_where_every_host_can_be_weighed(options, found, data):
    lenient = replace(options, metrics=replace(options.metrics, required=False))

    _change_some(lenient, found, data, fields(FINITE), st.just(()))


def _change_some(options, found, data, new_fields, new_aggregates):
    """Replace and remove hosts one by one, and compare with all hosts weighed again."""
    weighers = HostWeighers.load(options, Random(0))
    weighed = weighers.weigh(found, REQUEST)
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(found) - 1))
        if len(found) > 1 and data.draw(st.integers(0, 4)) == 0:
            found = data.draw(st.sampled_from([found[:place] + found[place + 1 :], found[:2]]))
            weighed.keep(found)
        else:
            changed = data.draw(new_fields)
            if data.draw(st.booleans()):
                changed = {"num_io_ops": changed["num_io_ops"]}
            if data.draw(st.integers(0, 5)) == 0:
                changed["aggregates"] = data.draw(new_aggregates)
            found[place] = replace(found[place], **changed)
            weighed.replace(found[place])
        naive = weighers.weigh(found, REQUEST)
        assert results(weighers, weighed) == results(weighers, naive)


def _shuffled(random, host):
    mixed: list[Aggregate] = list(host.aggregates)
    random.shuffle(mixed)
    instances = list(host.instances_here)
    random.shuffle(instances)
    return replace(host, aggregates=tuple(mixed), instances_here=frozenset(instances))


def _numbers(scores):
    return [(each.weigher, each.raw, each.weight, bool(each.problem)) for each in scores]
