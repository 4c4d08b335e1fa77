"""Filters judge each host by itself: by no other host, in no order, whatever its data are."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent.conf.scheduler import FilterOptions
from rtagent.errors import InvalidRequest
from rtagent.model.host_report import InstanceInfo, ServiceState
from rtagent.model.server import Destination, GroupRules, InstanceGroup
from rtagent.scheduler.filter import Check, Filter, Rejection, Request
from rtagent.scheduler.filtered import MAX_MESSAGE
from rtagent.scheduler.filtering import NAMESPACE, HostFilters
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.plugins import available, load
from tests.support.host_states import SEEN, aggregate, host_state
from tests.support.hosts import uid
from tests.support.odd_documents import ODD
from tests.support.scheduling import INSTANCE, scheduler_request

OPTIONS = FilterOptions(
    enabled_filters=tuple(
        name
        for name in available(NAMESPACE)
        if name not in ("NUMATopologyFilter", "PciPassthroughFilter")
    ),
    max_instances_per_host=3,
    max_io_ops_per_host=3,
    isolated_hosts=("cn1", "cn2"),
    isolated_images=("isolated",),
)
EVERY = load(NAMESPACE, OPTIONS.enabled_filters, "enabled_filters")
FILTERS = HostFilters.load(OPTIONS)

#: Each example has several hosts and every filter.
few = settings(max_examples=settings.default.max_examples // 2)

UUIDS = [INSTANCE, *map(uid, range(11, 15))]
words = st.sampled_from(["1", "2", "3", "many", "", "1, 2", "blue", "ssd,hdd", "x86_64"])
metadata = st.dictionaries(
    st.sampled_from(
        [
            *("max_instances_per_host", "max_io_ops_per_host", "availability_zone"),
            *("filter_tenant_id", "filter_tenant_id2", "instance_type", "disk", "os_distro"),
        ]
    ),
    words,
    max_size=3,
)
aggregates = st.lists(metadata, max_size=3).map(
    lambda all_: [aggregate(f"a{at}", **each) for at, each in enumerate(all_)]
)
numbers = st.integers(0, 4)
#: Fields that an agent or a database may have wrong.
odd = st.sampled_from([None, "many", [], {}])


@st.composite
def host_lists(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[HostState]:
    hosts = []
    for number in range(draw(st.integers(1, 5))):
        fields: dict[str, Any] = {
            "num_instances": draw(numbers | odd),
            "num_io_ops": draw(numbers | odd),
            "free_ram_mb": draw(st.integers(0, 4096) | odd),
            "stats": draw(st.dictionaries(st.just("io_workload"), numbers | odd) | odd),
            "cpu_info": draw(st.just({"arch": "x86_64", "features": ["aes"]}) | odd),
            "host_ip": draw(st.sampled_from(["192.0.2.1", "192.0.3.1", ""]) | odd),
            "seen": draw(st.sampled_from([SEEN, SEEN - 1])),
            "supported_instances": draw(st.just((("x86_64", "kvm", "hvm"),)) | odd),
        }
        host = host_state(
            f"cn{number}",
            instances=draw(st.lists(st.sampled_from(UUIDS), max_size=3, unique=True)),
            aggregates=draw(aggregates),
            service=ServiceState(disabled=draw(st.booleans())),
        )
        hosts.append(replace(host, **fields))
    return hosts


groups = st.none() | st.builds(
    InstanceGroup,
    policy=st.sampled_from(["affinity", "anti-affinity", "soft-affinity"]),
    rules=st.builds(GroupRules, max_server_per_host=st.integers(1, 2)),
    hosts=st.lists(st.sampled_from(["cn0", "cn1"]), max_size=2).map(tuple),
    members=st.lists(st.sampled_from(UUIDS), max_size=3).map(tuple),
)
extra_specs = st.dictionaries(
    st.sampled_from(
        [
            *("capabilities:free_ram_mb", "capabilities:stats:io_workload", "io_workload"),
            *("capabilities:cpu_info:features", "aggregate_instance_extra_specs:disk"),
            *("hw:cpu_policy", "hw:maxphysaddr_bits"),
        ]
    ),
    st.sampled_from(["2", ">= 2", "< 3", "<in> ssd", "<or> ssd <or> 1", "s== ssd", ">= x"]),
    max_size=2,
)
hints = st.dictionaries(
    st.sampled_from(["same_host", "different_host", "query", "build_near_host_ip"]),
    st.sampled_from(
        [
            *(None, "", (), *UUIDS, tuple(UUIDS[:2]), "192.0.2.7"),
            *('["not", [">", "$free_ram_mb", 1000]]', '["=", "$stats.io_workload", 2]', '["and"]'),
        ]
    ),
    max_size=2,
)
destinations = st.none() | st.builds(
    Destination,
    host=st.sampled_from([None, "cn1"]),
    aggregates=st.lists(st.just(aggregate("a1").uuid), max_size=1).map(tuple),
)
names = st.lists(st.sampled_from(["cn0", "CN1", "cn9"]), max_size=2).map(tuple)
requests = st.builds(
    scheduler_request,
    extra_specs=extra_specs,
    image=st.dictionaries(st.sampled_from(["os_distro", "hw_architecture"]), words, max_size=2),
    image_id=st.sampled_from([None, "isolated", "other"]),
    hints=hints,
    group=groups,
    placement=st.booleans(),
    project_id=st.sampled_from([None, "blue"]),
    availability_zone=st.sampled_from([None, None, None, "nova", "blue"]),
    ignore_hosts=names,
    force_hosts=st.just(()) | names,
    requested_destination=destinations,
)


def _verdicts(filters: HostFilters, hosts: list[HostState], request: Request) -> Any:
    """Return, by host, every refusal; or the error of the request."""
    try:
        filtered = filters.get_filtered_hosts(hosts, request, every_verdict=True)
    except InvalidRequest as error:
        return str(error)
    passed = {host.host for host in filtered.hosts}
    return {
        host.host: (
            host.host in passed,
            [
                (each.filter, each.rejection.message)
                for each in filtered.refusals
                if each.host == host.host
            ],
        )
        for host in hosts
    }


@few
@given(hosts=host_lists(), request=requests, data=st.data())
def test_a_verdict_depends_on_no_order(hosts, request, data):
    verdicts = _verdicts(FILTERS, hosts, request)
    shuffled = [
        replace(host, aggregates=tuple(data.draw(st.permutations(host.aggregates))))
        for host in data.draw(st.permutations(hosts))
    ]
    assert _verdicts(FILTERS, shuffled, request) == verdicts


@few
@given(hosts=host_lists(), request=requests)
def test_a_verdict_depends_on_no_other_host(hosts, request):
    verdicts = _verdicts(FILTERS, hosts, request)
    for host in hosts:
        alone = _verdicts(FILTERS, [host], request)
        assert alone == (
            verdicts if isinstance(verdicts, str) else {host.host: verdicts[host.host]}
        )


@few
@given(hosts=host_lists(), request=requests)
def test_hosts_that_pass_are_those_that_no_filter_refuses(hosts, request):
    verdicts = _verdicts(FILTERS, hosts, request)
    if isinstance(verdicts, str):
        with pytest.raises(InvalidRequest):
            FILTERS.prepare(request).filter(hosts)
        return
    filtered = FILTERS.prepare(request).filter(hosts)
    assert [host.host for host in filtered.hosts] == [
        name for name, (passed, _) in verdicts.items() if passed
    ]
    assert all(passed == (not refusals) for passed, refusals in verdicts.values())
    assert sum(filtered.refused.values()) == len(hosts) - len(filtered.hosts)


#: What a flavor, an image or a user may say, valid or not.
says = st.sampled_from(ODD) | st.sampled_from(
    [
        *(">= 1", "<or> a", "<all-in>", "=", "s<= x", "192.0.2.1", "/24", "/-1", ">=8,<9", ">="),
        *(
            '["=", 1, 1]',
            '["<", "$host", 1]',
            "[" * 3000,
            '["=", ' + "9" * 400 + ", 1]",
            '{"a": 1}',
        ),
        *('["not", ["=", "$uuid.a.b", 1]]', '["in", "$pci_stats", 1]', '["=", 1e400, 1]'),
        *("x86_64", "kvm", "hvm", "1e3", "48"),
    ]
)


@few
@given(
    hosts=host_lists(),
    extra_specs=st.dictionaries(
        st.sampled_from(
            [
                *("capabilities:", "capabilities:stats:", "capabilities:cpu_info:features", ":"),
                *("aggregate_instance_extra_specs:disk", "disk", "host", "hw:maxphysaddr_bits"),
                *("capabilities:numa_topology:cells", "capabilities:service:disabled"),
            ]
        ),
        says,
        max_size=2,
    ),
    image=st.dictionaries(
        st.sampled_from(
            [
                *("hw_architecture", "img_hv_type", "hw_vm_mode", "img_hv_requested_version"),
                *("hw_maxphysaddr_bits", "os_distro", "hypervisor_version_requires"),
            ]
        ),
        says,
        max_size=2,
    ),
    hints=st.dictionaries(
        st.sampled_from(["query", "build_near_host_ip", "cidr", "same_host", "different_host"]),
        says | st.lists(says, max_size=2).map(tuple),
        max_size=2,
    ),
)
def test_a_request_is_an_error_or_is_judged(hosts, extra_specs, image, hints):
    request = scheduler_request(extra_specs=extra_specs, image=image, hints=hints)
    try:
        filtered = FILTERS.get_filtered_hosts(hosts, request, every_verdict=True)
    except InvalidRequest as error:
        assert all(each["path"].startswith("$.request_spec.") for each in error.kwargs["errors"])
        assert len(str(error)) < 2000
        return
    for refusal in filtered.refusals:
        assert "cannot judge the request" not in refusal.rejection.message
        assert len(refusal.rejection.message) <= MAX_MESSAGE


class ThirdParty(Filter):
    """Raises for some hosts. :ivar broken: their names."""

    cost = 1
    broken: frozenset[str] = frozenset()

    def prepare(self, request: Request) -> Check | None:
        def check(host: HostState) -> Rejection | None:
            return Rejection(str(1 // 0)) if host.host in self.broken else None

        return check


@few
@given(hosts=host_lists(), request=requests, data=st.data())
def test_an_error_in_a_filter_of_a_third_party_refuses_that_host_only(hosts, request, data):
    expected = _verdicts(FILTERS, hosts, request)
    third = ThirdParty(OPTIONS)
    third.broken = data.draw(st.frozensets(st.sampled_from([host.host for host in hosts])))
    with_third = HostFilters([third, *(kind(OPTIONS) for kind in EVERY)], OPTIONS)
    verdicts = _verdicts(with_third, hosts, request)
    if isinstance(expected, str):
        assert verdicts == expected
        return
    skipped = bool(request.spec.force_hosts) and not (
        request.spec.requested_destination and request.spec.requested_destination.host
    )
    for name, (passed, refusals) in verdicts.items():
        of_third = [each for each in refusals if each[0] == "ThirdParty"]
        assert len(of_third) == (name in third.broken and not skipped)
        others = [each for each in refusals if each[0] != "ThirdParty"]
        assert sorted(others) == sorted(expected[name][1])
        assert passed == (expected[name][0] and not of_third)


@few
@given(hosts=host_lists(), request=requests, at=st.integers(0, 4))
def test_judging_again_is_as_judging_anew(hosts, request, at):
    try:
        prepared = FILTERS.prepare(request)
        passed = prepared.filter(hosts).hosts
    except InvalidRequest:
        return
    if not passed:
        return
    chosen = passed[at % len(passed)]
    instances = {**chosen.instances, INSTANCE: InstanceInfo(uuid=INSTANCE)}
    here = {"instances": instances, "instances_here": frozenset(instances)}
    consumed = replace(chosen, **here, num_instances=4, free_ram_mb=0)
    after = [consumed if host is chosen else host for host in passed]
    following = prepared.next_instance(uid(99), consumed)
    again = following.filter_again(after, {consumed.uuid}).hosts
    anew = FILTERS.get_filtered_hosts(after, following.request).hosts
    if any(request.spec.hint(name) for name in ("same_host", "different_host")):
        # They judge a host once, and the instance of this request is no instance of the hints.
        again = [host for host in again if host is not consumed]
        anew = [host for host in anew if host is not consumed]
    assert [host.host for host in again] == [host.host for host in anew]
    if consumed in again:
        assert following.judge_again(consumed) is None
