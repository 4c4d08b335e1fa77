"""Filtering: hosts are judged filter by filter, and consumed hosts again for the next instance."""

import re

import pytest
from msgspec.structs import replace

from rtagent.conf.scheduler import FilterOptions
from rtagent.errors import ConfigError, InvalidRequest
from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.host_report import InstanceInfo, ServiceState
from rtagent.model.request import Flavor
from rtagent.model.server import GroupRules, ImageRequest, InstanceGroup, RequestSpec
from rtagent.scheduler import plugins
from rtagent.scheduler.filter import Check, Filter, Rejection, Request, invalid
from rtagent.scheduler.filtered import KEPT, MAX_MESSAGE
from rtagent.scheduler.filtering import NAMESPACE, HostFilters
from rtagent.scheduler.host_state import HostState
from tests.support.host_states import SEEN, host_state
from tests.support.hosts import NOON, uid
from tests.support.scheduling import scheduler_request

HOSTS = [host_state(f"cn{at}") for at in range(1, 9)]
MANY = [host_state(f"cn{at:02}") for at in range(1, KEPT + 9)]
OPTIONS = FilterOptions()


class Refusing(Filter):
    """Refuses hosts by name, with a reason for each. :ivar judged: names, in order."""

    def __init__(self, missing: dict[str, int], cost: int = 0) -> None:
        super().__init__(OPTIONS)
        self.missing, self.judged = missing, list[str]()
        self.cost = cost  # type: ignore[misc]

    def prepare(self, request: Request) -> Check | None:
        return self._check

    def _check(self, host: HostState) -> Rejection | None:
        self.judged.append(host.host)
        if host.host not in self.missing:
            return None
        missing = self.missing[host.host]
        numbers = {"requested": 10, "available": 10 - missing, "unit": "vCPUs"}
        code = ReasonCode.INSUFFICIENT
        reason = Reason(code=code, resource="VCPU", where=host.host, **numbers)
        return Rejection(f"misses {missing}", (reason,))


class Third(Filter):
    """A filter of others. :ivar error: of each request. :ivar check: that it prepares."""

    def __init__(self, check: Check, error: Exception | None = None) -> None:
        super().__init__(OPTIONS)
        self.check, self.error = check, error

    def prepare(self, request: Request) -> Check | None:
        if self.error is not None:
            raise self.error
        return self.check


def _broken(host: HostState) -> Rejection | None:
    if host.host == "cn2":
        raise ZeroDivisionError("by zero")
    return None


BROKEN = Third(_broken)


def _filtered(filter_):
    return HostFilters([filter_], OPTIONS).get_filtered_hosts(HOSTS, scheduler_request())


def _names(hosts):
    return [host.host for host in hosts]


def test_a_host_is_judged_until_a_filter_refuses_it():
    first, second = Refusing({"cn2": 1, "cn3": 1}), Refusing({"cn4": 1}, cost=1)
    filters = HostFilters([second, first], OPTIONS)
    filtered = filters.get_filtered_hosts(HOSTS[:4], scheduler_request())
    assert _names(filtered.hosts) == ["cn1"]
    assert first.judged == ["cn1", "cn2", "cn3", "cn4"]
    assert second.judged == ["cn1", "cn4"]


def test_refusals_are_counted_and_some_are_kept():
    disabled = ServiceState(disabled=True)
    hosts = [replace(host, service=disabled) for host in MANY[1:]] + MANY[:1]
    filtered = HostFilters.load(OPTIONS).get_filtered_hosts(hosts, scheduler_request())
    assert _names(filtered.hosts) == ["cn01"]
    assert filtered.judged == ("ComputeFilter",)
    assert filtered.refused == {"ComputeFilter": KEPT + 7}
    assert [each.host for each in filtered.refusals] == _names(MANY[1 : KEPT + 1])
    refusal = filtered.refusals[0]
    assert (refusal.nodename, refusal.uuid) == ("cn02.example", MANY[1].uuid)
    assert refusal.rejection.message == "its service is disabled"


def test_every_verdict_of_every_filter_is_kept_on_request():
    first, second = Refusing({"cn2": 1, "cn3": 1}), Refusing({"cn2": 2, "cn4": 1}, cost=1)
    filters = HostFilters([first, second], OPTIONS)
    request = scheduler_request(ignore_hosts=("cn2",))
    filtered = filters.get_filtered_hosts(HOSTS, request, every_verdict=True)
    assert _names(filtered.hosts) == ["cn1", "cn5", "cn6", "cn7", "cn8"]
    assert filtered.judged == ("ignore_hosts", "Refusing", "Refusing")
    refusals = [(each.filter, each.host) for each in filtered.refusals]
    refusing = [("Refusing", host) for host in ("cn2", "cn3", "cn2", "cn4")]
    assert refusals == [("ignore_hosts", "cn2"), *refusing]


@pytest.mark.parametrize("near", ["cn2", "cn3", "cn4"])
def test_the_nearest_miss_is_of_the_last_filter_with_numbers(near):
    class Second(Refusing):
        pass

    first, second = Refusing({"cn1": 1}), Second({"cn2": 7, "cn3": 7, "cn4": 5, near: 2}, cost=1)
    filters = HostFilters([first, second], OPTIONS)
    nearest = filters.get_filtered_hosts(HOSTS[:4], scheduler_request()).nearest
    assert nearest is not None
    assert (nearest.host, nearest.rejection.message) == (near, "misses 2")
    assert filters.get_filtered_hosts(HOSTS[4:], scheduler_request()).nearest is None


def test_a_filter_that_fails_refuses_that_host_only():
    (refusal,) = _filtered(BROKEN).refusals
    assert refusal.host == "cn2"
    assert refusal.rejection.message == "Third cannot judge this host: ZeroDivisionError: by zero"


def test_an_error_of_a_filter_is_logged_once(caplog):
    filters = HostFilters([BROKEN], OPTIONS)
    for _ in range(3):
        filters.get_filtered_hosts(HOSTS, scheduler_request())
    assert [record.getMessage() for record in caplog.records] == [
        "The filter Third cannot judge the host cn2, which is set aside"
    ]


def test_a_filter_that_cannot_judge_the_request_refuses_every_host():
    filtered = _filtered(Third(lambda host: None, KeyError("no such thing")))
    assert filtered.hosts == []
    assert "it cannot judge the request: KeyError" in filtered.refusals[0].rejection.message


def test_a_filter_may_refuse_the_request_itself():
    error = invalid(".flavor.name", "must be another")
    with pytest.raises(InvalidRequest, match=r"\$\.request_spec\.flavor\.name: must be another"):
        _filtered(Third(lambda host: None, error))


@pytest.mark.parametrize("answer", [True, False, "no"])
def test_an_answer_that_is_no_rejection_refuses_the_host(answer):
    filtered = _filtered(Third(lambda host: answer))
    assert filtered.hosts == []
    assert "neither None nor a Rejection" in filtered.refusals[0].rejection.message


def test_a_long_reason_is_cut():
    filtered = _filtered(Third(lambda host: Rejection("x" * 100_000)))
    assert filtered.refusals[0].rejection.message == "x" * (MAX_MESSAGE - 3) + "..."


# -- several instances ----------------------------------------------------------------------------


def _consumed(host: HostState, instance_uuid: str) -> HostState:
    instances = {**host.instances, instance_uuid: InstanceInfo(uuid=instance_uuid)}
    counts = {"num_instances": len(instances), "num_io_ops": host.num_io_ops + 1}
    return replace(host, instances=instances, **counts)


def _selected_in_turn(filters: HostFilters, request: Request, number: int) -> list[str]:
    """Select the first host that passes for each instance; return the names until none passes."""
    prepared = filters.prepare(request)
    passing = {host.uuid: host for host in prepared.filter(HOSTS[:3]).hosts}
    selected = []
    for instance in range(1, number + 1):
        if not passing:
            break
        host = next(iter(passing.values()))
        selected.append(host.host)
        passing[host.uuid] = _consumed(host, prepared.request.instance_uuid)
        prepared = prepared.next_instance(uid(100 + instance), passing[host.uuid])
        again = prepared.filter_again(passing.values(), {host.uuid})
        assert (prepared.judge_again(passing[host.uuid]) is None) == (
            host.uuid in {each.uuid for each in again.hosts}
        )
        passing = {each.uuid: each for each in again.hosts}
    return selected


@pytest.mark.parametrize(
    ("most", "names"), [(1, ["cn1", "cn2", "cn3"]), (2, ["cn1", "cn1", "cn2", "cn2", "cn3"])]
)
def test_an_anti_affinity_group_spreads_its_instances(most, names):
    group = InstanceGroup(policy="anti-affinity", rules=GroupRules(max_server_per_host=most))
    request = scheduler_request(group=group)
    assert _selected_in_turn(HostFilters.load(OPTIONS), request, 5)[: len(names)] == names
    assert len(_selected_in_turn(HostFilters.load(OPTIONS), request, 9)) == 3 * most


@pytest.mark.parametrize(
    ("name", "options", "fields"),
    [
        ("NumInstancesFilter", {"max_instances_per_host": 2}, {}),
        ("AggregateNumInstancesFilter", {"max_instances_per_host": 2}, {}),
        ("IoOpsFilter", {"max_io_ops_per_host": 2}, {}),
        ("AggregateIoOpsFilter", {"max_io_ops_per_host": 2}, {}),
        ("ComputeCapabilitiesFilter", {}, {"extra_specs": {"capabilities:num_instances": "< 2"}}),
        ("JsonFilter", {}, {"hints": {"query": '["<", "$num_instances", 2]'}}),
    ],
)
def test_a_consumed_host_is_judged_again(name, options, fields):
    filters = HostFilters.load(FilterOptions(enabled_filters=(name,), **options))
    selected = _selected_in_turn(filters, scheduler_request(**fields), 9)
    assert selected == ["cn1", "cn1", "cn2", "cn2", "cn3", "cn3"]


def test_other_hosts_are_not_judged_again():
    again = Refusing({})
    again.every_instance = True  # type: ignore[misc]
    filters = HostFilters([again, Refusing({}, cost=1)], OPTIONS)
    prepared = filters.prepare(scheduler_request())
    hosts = prepared.filter(HOSTS).hosts
    again.judged.clear()
    following = prepared.next_instance(uid(100), HOSTS[3])
    filtered = following.filter_again(hosts, {HOSTS[3].uuid})
    assert again.judged == ["cn4"]
    assert filtered.judged == ("Refusing",)
    assert _names(filtered.hosts) == _names(HOSTS)


@pytest.mark.parametrize(
    ("root_gb", "image", "is_bfv", "path"),
    [
        (10, {"min_ram": 513}, False, "memory_mb: must be at least the min_ram of the image, 513"),
        (10, {"min_disk": 11}, False, "root_gb: must be at least the min_disk of the image, 11"),
        (10, {"min_ram": 513}, True, "memory_mb"),
        (10, {"min_ram": 512, "min_disk": 10}, False, None),
        (0, {"min_disk": 10}, False, None),
        (5, {"min_disk": 10}, True, None),
    ],
)
def test_a_flavor_that_is_too_small_for_the_image_is_refused(root_gb, image, is_bfv, path):
    flavor = Flavor(vcpus=1, memory_mb=512, root_gb=root_gb)
    spec = RequestSpec(flavor=flavor, image=ImageRequest(**image), is_bfv=is_bfv)
    request = Request(spec=spec, instance_uuid=uid(1), alive_since=SEEN, now=NOON)
    filters = HostFilters.load(FilterOptions())
    if path is None:
        assert filters.get_filtered_hosts([host_state()], request).hosts
        return
    with pytest.raises(InvalidRequest) as caught:
        filters.get_filtered_hosts([host_state()], request)
    assert f"$.request_spec.flavor.{path}" in str(caught.value)


# -- filters by name, from entry points ----------------------------------------------------------


def test_an_unknown_name_of_a_filter_is_an_error_that_lists_what_is_installed():
    with pytest.raises(ConfigError) as caught:
        HostFilters.load(FilterOptions(enabled_filters=("ComputeFilter", "RamFilter")))
    message = str(caught.value)
    assert message.startswith("[filter_scheduler] enabled_filters = RamFilter: is not installed")
    assert "AllHostsFilter, ComputeCapabilitiesFilter, ComputeFilter" in message


def test_a_plugin_that_cannot_be_loaded_is_an_error_that_says_why(tmp_path, monkeypatch):
    installed = tmp_path / "other-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    entry = "tests.unit.scheduler.nowhere:Filter"
    (installed / "entry_points.txt").write_text(f"[{NAMESPACE}.broken]\nBrokenFilter = {entry}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    expected = f"[filter_scheduler] enabled_filters = BrokenFilter: cannot be loaded from {entry}"
    with pytest.raises(ConfigError, match=f"{re.escape(expected)}.*nowhere"):
        plugins.load(f"{NAMESPACE}.broken", ["BrokenFilter"], "enabled_filters")


def test_cheap_filters_judge_first_and_each_once():
    enabled = ["ServerGroupAffinityFilter", "JsonFilter", "ComputeFilter", "ImagePropertiesFilter"]
    options = FilterOptions(enabled_filters=(*enabled, "ComputeFilter"))
    groups = ("ServerGroupAffinityFilter", "JsonFilter")
    names = HostFilters.load(options).names
    assert names == ("ComputeFilter", "ImagePropertiesFilter", *groups)
