"""One host's data, or one odd hint, does not decide for all hosts.

Nova's filters raise for a value that they cannot read, which ends the request for every host; what
they do with several values depends on the order of a set; and some odd queries pass every host.

Here a host whose data cannot be read is set aside and named, values are sorted before they are
judged, and an odd request is an error that names the path.
"""

import itertools
import json
import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from rtagent.conf.scheduler import FilterOptions
from rtagent.errors import InvalidRequest
from rtagent.scheduler.filtering import NAMESPACE, HostFilters
from rtagent.scheduler.plugins import available
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import scheduler_request

#: All but those that need the claim to fit.
EVERY = tuple(
    name
    for name in available(NAMESPACE)
    if name not in ("NUMATopologyFilter", "PciPassthroughFilter")
)
FILTERS = HostFilters.load(FilterOptions(enabled_filters=EVERY))


def _judged(hosts, **request):
    filtered = FILTERS.get_filtered_hosts(hosts, scheduler_request(**request))
    reasons = {each.host: each.rejection.message for each in filtered.refusals}
    return [host.host for host in filtered.hosts], reasons


@pytest.mark.parametrize(
    ("metadata", "extra_specs"),
    [
        ({"max_instances_per_host": "many"}, {}),
        ({"max_io_ops_per_host": "1.5"}, {}),
        ({"level": "high"}, {"aggregate_instance_extra_specs:level": ">= 1"}),
    ],
)
def test_bad_metadata_of_one_host_sets_that_host_aside(metadata, extra_specs):
    good, bad = aggregate("good", level="1"), aggregate("bad", **metadata)
    hosts = [host_state("cn1", aggregates=[bad]), host_state("cn2", aggregates=[good])]
    passed, reasons = _judged(hosts, extra_specs=extra_specs)
    assert passed == ["cn2"]
    assert list(reasons) == ["cn1"]
    assert next(iter(metadata)) in reasons["cn1"]


def test_bad_statistics_of_one_host_set_that_host_aside():
    hosts = [
        host_state("cn1", stats={"io_workload": "many"}),
        host_state("cn2", num_instances=None),
        host_state("cn3", num_io_ops="some"),
        host_state("cn4", stats=None),
        host_state("cn5", stats={"io_workload": 1}),
    ]
    passed, reasons = _judged(hosts, extra_specs={"capabilities:io_workload": "<= 2"}, image={})
    assert passed == ["cn5"]
    assert "io_workload has to be <= 2, and is not a number" in reasons["cn1"]


def test_a_host_without_statistics_or_supported_instances_is_judged():
    bare = host_state("cn1", stats=None, supported_instances=None, cpu_info=None)
    whole = host_state("cn2", supported_instances=(("x86_64", "kvm", "hvm"),))
    assert _judged([bare, whole])[0] == ["cn1", "cn2"]
    passed, reasons = _judged([bare, whole], image={"hw_architecture": "x86_64"})
    assert (passed, list(reasons)) == (["cn2"], ["cn1"])
    passed, reasons = _judged([bare, whole], extra_specs={"capabilities:num_instances": "0"})
    assert passed == ["cn1", "cn2"]
    passed, reasons = _judged([bare, whole], extra_specs={"capabilities:failed_builds": "< 1"})
    assert passed == ["cn1", "cn2"]


_ORDER = """
import itertools
from tests.regressions.test_scheduler_filters import verdicts_in_every_order
print(sorted(verdicts_in_every_order()))
"""


def verdicts_in_every_order():
    """Judge a host whose aggregates disagree, in every order of the aggregates."""
    aggregates = [
        aggregate("a", level="1", max_instances_per_host="5", os_distro="a,b"),
        aggregate("b", level="high", max_instances_per_host="many", os_distro="c"),
        aggregate("c", level="3", max_instances_per_host="7", os_distro="d, a"),
    ]
    found = set()
    for order in itertools.permutations(aggregates):
        host = replace(host_state("cn1", num_instances=6), aggregates=order)
        for request in (
            {},
            {"extra_specs": {"aggregate_instance_extra_specs:level": ">= 2"}},
            {"extra_specs": {"aggregate_instance_extra_specs:level": "s== 3"}},
            {"image": {"os_distro": "e"}},
        ):
            passed, reasons = _judged([host], **request)
            found.add((json.dumps(request), bool(passed), *reasons.values()))
    return found


def test_several_values_are_judged_the_same_in_every_order():
    printed = {
        subprocess.run(
            [sys.executable, "-c", _ORDER],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(printed) == 1
    assert len(verdicts_in_every_order()) == 4


@pytest.mark.parametrize("value", [None, [], "", [""]])
@pytest.mark.parametrize(
    "name", ["same_host", "different_host", "query", "cidr", "build_near_host_ip", "group", "other"]
)
def test_a_null_hint_is_no_hint(name, value):
    assert _judged([host_state()], hints={name: value})[0] == ["cn1"]
    assert _judged([host_state()], hints=None)[0] == ["cn1"]


@pytest.mark.parametrize(
    ("query", "passing"),
    [
        (["not", ["=", "$host", "cn1"]], ["cn2"]),
        (["and", [">", "$free_ram_mb", 0], ["not", ["=", "$host", "cn1"]]], ["cn2"]),
        (["or", ["=", "$host", "cn9"], ["not", ["=", "$host", "cn1"]]], ["cn2"]),
        (["not", ["not", ["=", "$host", "cn1"]]], ["cn1"]),
        (["not", ["or", ["=", "$host", "cn1"], ["not", ["=", "$host", "cn1"]]]], []),
    ],
)
def test_a_nested_not_negates(query, passing):
    hosts = [host_state("cn1"), host_state("cn2")]
    assert _judged(hosts, hints={"query": json.dumps(query)})[0] == passing


@pytest.mark.parametrize("query", ["[]", "{}", "null", "0", '["and"]', '["xor", 1, 1]', "not JSON"])
def test_a_malformed_query_passes_no_host(query):
    with pytest.raises(InvalidRequest, match=r"scheduler_hints\.query"):
        _judged([host_state()], hints={"query": query})


def test_address_bits_are_compared_with_those_of_the_host():
    hosts = [
        host_state("cn1", cpu_info={"maxphysaddr": {"mode": "passthrough", "bits": 39}}),
        host_state("cn2", cpu_info={"maxphysaddr": {"mode": "passthrough", "bits": 46}}),
        host_state("cn3", cpu_info={}),
    ]
    passed, reasons = _judged(hosts, image={"hw_maxphysaddr_bits": "42"})
    assert passed == ["cn2", "cn3"]
    assert reasons == {"cn1": "its CPUs have 39 physical address bits, of 42 needed"}
    assert _judged(hosts, extra_specs={"hw:maxphysaddr_bits": "42"})[0] == ["cn2"]
