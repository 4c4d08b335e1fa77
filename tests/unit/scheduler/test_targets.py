"""Hosts, nodes, zones and aggregates: those that a request names, and the rules of aggregates."""

import pytest

from rtagent.conf.scheduler import FilterOptions
from rtagent.model.host_report import InstanceInfo, ServiceState
from rtagent.model.server import Destination
from rtagent.scheduler import aggregate_rules as rules
from rtagent.scheduler.errors import AggregateNotFound
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.targets import MAX_UNMATCHED
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import INSTANCE, scheduler_request

EAST, WEST = (aggregate(name, availability_zone=name) for name in ("east", "west"))
SSD = aggregate("ssd", ssd="true")
ASIDE = host_state("cn4", service=ServiceState(disabled=True))
GROUPS = {"cn1": [EAST, SSD], "cn2": [WEST], "Cn3": [SSD]}
HOSTS = [*(host_state(name, aggregates=group) for name, group in GROUPS.items()), ASIDE]
FILTERS = HostFilters.load(FilterOptions())


def _filtered(**fields):
    return FILTERS.get_filtered_hosts(HOSTS, scheduler_request(**fields))


def _names(**fields):
    return [host.host for host in _filtered(**fields).hosts]


ON_SSD = Destination(aggregates=(SSD.uuid,))
NOT_EAST = Destination(aggregates=(EAST.uuid,), forbidden_aggregates=(EAST.uuid,))


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, ["cn1", "cn2", "Cn3"]),
        ({"ignore_hosts": ["CN1", "cn3"]}, ["cn2"]),
        ({"ignore_hosts": ["cn1.example"]}, ["cn1", "cn2", "Cn3"]),
        ({"force_hosts": ["CN3"]}, ["Cn3"]),
        ({"availability_zone": "east", "placement": True}, ["cn1"]),
        ({"availability_zone": "nova"}, ["Cn3"]),
        ({"force_nodes": ["cn2.example"]}, ["cn2"]),
        ({"force_nodes": ["CN2.example"]}, []),
        ({"force_hosts": ["cn1"], "force_nodes": ["cn2.example"]}, []),
        ({"force_hosts": ["cn1", "cn2"], "ignore_hosts": ["cn1"]}, ["cn2"]),
        ({"requested_destination": Destination(host="cn1")}, ["cn1"]),
        ({"requested_destination": Destination(host="CN1")}, []),
        ({"requested_destination": Destination(node="cn1.example")}, ["cn1"]),
        ({"requested_destination": Destination(host="cn1", node="cn2.example")}, []),
        ({"requested_destination": Destination(host="cn1"), "ignore_hosts": ["cn1"]}, []),
        # Forced hosts skip the filters, and not the rest of the request.
        ({"force_hosts": ["cn4"]}, ["cn4"]),
        ({"force_nodes": ["cn4.example"]}, ["cn4"]),
        ({"force_hosts": ["cn1", "cn2"], "availability_zone": "west"}, ["cn2"]),
        ({"requested_destination": ON_SSD, "force_hosts": ["cn1", "cn2"]}, ["cn1"]),
        # Placement has judged the aggregates.
        ({"requested_destination": NOT_EAST, "placement": True}, ["cn1", "cn2", "Cn3"]),
    ],
)
def test_named_hosts_are_ignored_forced_and_requested_as_in_nova(fields, names):
    fields = {key: tuple(each) if isinstance(each, list) else each for key, each in fields.items()}
    assert _names(**fields) == names


@pytest.mark.parametrize("purpose", ["live-migration", "migration", "evacuation"])
def test_a_move_away_never_ends_on_the_host_that_the_instance_is_on(purpose):
    arriving = InstanceInfo(uuid=INSTANCE, here=False)
    hosts = [host_state("cn1", instances=[INSTANCE]), host_state("cn2", instances=[arriving])]
    asked = scheduler_request(purpose=purpose)
    assert [host.host for host in FILTERS.get_filtered_hosts(hosts, asked).hosts] == ["cn2"]
    named = Destination(host="cn1")
    asked = scheduler_request(purpose=purpose, requested_destination=named)
    found = FILTERS.get_filtered_hosts(hosts, asked)
    assert found.hosts == [] and found.refused["source"] == 1
    resized = scheduler_request(purpose="resize")
    assert len(FILTERS.get_filtered_hosts(hosts, resized).hosts) == 2


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"service": ServiceState(draining="")}, "it is being drained"),
        ({"up": False, "why_not": "the first audit"}, "it grants no claims: the first audit"),
    ],
)
def test_a_host_is_not_forced_whose_agent_grants_no_claims(fields, why):
    forced = scheduler_request(force_hosts=("cn1",))
    found = FILTERS.get_filtered_hosts([host_state("cn1", **fields)], forced)
    assert [(each.filter, each.rejection.message) for each in found.refusals] == [("agent", why)]


def test_a_requested_destination_does_not_skip_the_filters():
    destination = Destination(host="cn4")
    assert _names(requested_destination=destination) == []
    filtered = _filtered(requested_destination=destination, force_hosts=("cn4",))
    assert filtered.refused == {"requested_destination": 3, "ComputeFilter": 1}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"force_hosts": ("cn1", "cn9")}, "force_hosts: none of the 4 hosts has the name cn9"),
        ({"force_nodes": ("cn1",)}, "force_nodes: none of the 4 hosts has the name cn1"),
        (
            {"requested_destination": Destination(host="cn1", node="x")},
            "requested_destination: none of the 4 hosts is host cn1 and node x",
        ),
    ],
)
def test_a_name_that_no_host_has_is_reported(fields, sentence):
    assert _filtered(**fields).unmatched == (sentence,)
    assert _filtered(force_hosts=("CN1",)).unmatched == ()
    many = tuple(f"no{number}" for number in range(100))
    assert len(_filtered(force_hosts=many).unmatched) == MAX_UNMATCHED
    assert _filtered(requested_destination=Destination(host="cn1")).unmatched == ()


def test_the_zone_of_hosts_without_one_is_the_option():
    filters = HostFilters.load(FilterOptions(default_availability_zone="north"))
    request = scheduler_request(availability_zone="north")
    filtered = filters.get_filtered_hosts(HOSTS, request)
    assert [host.host for host in filtered.hosts] == ["Cn3"]
    reasons = [each.rejection.message for each in filtered.refusals]
    assert "it is in the zone east, not in north" in reasons


@pytest.mark.parametrize(
    ("destination", "names"),
    [
        (Destination(aggregates=(EAST.uuid,)), ["cn1"]),
        (Destination(aggregates=(f"{EAST.uuid},{WEST.uuid}",)), ["cn1", "cn2"]),
        (Destination(aggregates=(f"{EAST.uuid},{WEST.uuid}", SSD.uuid)), ["cn1"]),
        (Destination(forbidden_aggregates=(SSD.uuid,)), ["cn2"]),
        (Destination(aggregates=(SSD.uuid,), forbidden_aggregates=(EAST.uuid,)), ["Cn3"]),
    ],
)
def test_aggregates_are_judged_here_without_placement(destination, names):
    assert _names(requested_destination=destination) == names


def test_uuid_is_looked_for_before_the_name():
    one, two = aggregate("one"), aggregate("two")
    odd = aggregate(one.uuid)  # its name is the uuid of another
    assert rules.find((odd, two, one), one.uuid) == one
    assert rules.find((odd, two, one), "two") == two
    with pytest.raises(AggregateNotFound, match="there is no aggregate three"):
        rules.find((one, two), "three")


def test_zone_may_be_changed_if_its_hosts_are_in_no_other():
    north, south = aggregate("n", "cn1", availability_zone="n"), aggregate("s", "cn2")
    rules.check(rules.with_metadata(south, {"availability_zone": "s"}), (north, south))
    rules.check(rules.with_metadata(north, {"availability_zone": "s"}), (north, south))
