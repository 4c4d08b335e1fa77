"""The room of the fleet: what is counted, what is listed, and what is not known."""

import pytest
from msgspec.structs import replace

from rtagent.capacity.catalogue import MAX_FLAVORS
from rtagent.conf.scheduler import SchedulerOptions
from rtagent.errors import InvalidFlavor, InvalidRequest
from rtagent.model.host_report import ServiceState
from rtagent.model.request import Flavor, Image
from rtagent.model.server import InstanceGroup
from rtagent.scheduler.fleet_counts import FleetCounts
from tests.support.host_states import aggregate, host_state
from tests.support.hosts import PINNING, ManualClock, host, request
from tests.support.reporting_agents import ReportingAgent, deliver, reported
from tests.support.scheduling import HostsInMemory, scheduler, spec

LARGE = Flavor(name="large", vcpus=1, memory_mb=6 * 1024)


def counted(hosts, *listed, filters=("ComputeFilter",), placement=None):
    view = hosts if hasattr(hosts, "get_all_host_states") else HostsInMemory(hosts)
    return counted_by(scheduler(view, filters=filters, placement=placement), *listed)


def counted_by(made, *listed):
    counts = FleetCounts(lambda: made.parts, lambda: listed)
    assert counts.count(60)
    return counts


def summaries(counts):
    return {each.name: each.summary for each in counts.capacity().flavors}


def two_agents(*quantities, **fields):
    """Two agents with a claim each, and the manager that knows them."""
    agents = [ReportingAgent("cn1"), ReportingAgent("cn2")]
    for agent in agents:
        agent.claim(request(*quantities, **fields))
    return agents, reported(*agents)


def of(counts, *arguments, **fields):
    counts.of_request(spec(*arguments, **fields))
    assert counts.count(60)
    return counts.of_request(spec(*arguments, **fields), by="host")


def test_the_room_of_the_fleet_is_the_sum_of_its_hosts_with_the_largest_and_what_is_scarce():
    hosts = [host_state("cn1"), host_state("cn2", host(reserved_memory_mb=8192))]
    large = summaries(counted(hosts, LARGE))["large"]
    assert (large.room, large.hosts, large.hosts_with_room) == (3, 2, 2)
    assert (large.largest, large.largest_host, large.never) == (2, "cn1", "")
    [scarce] = large.scarce
    assert (scarce.resource, scarce.hosts) == ("MEMORY_MB", 2)
    assert scarce.message == "MEMORY_MB: 6144 MB requested at cn1.example, 4096 available"


@pytest.mark.parametrize(
    ("filters", "refused"),
    [
        (
            ("ComputeFilter",),
            {
                "ComputeFilter: its service is disabled: disks",
                "ComputeFilter: it is being drained: reboot",
                "ComputeFilter: its agent grants no claims: libvirt is lost",
            },
        ),
        ((), {"agent: it is being drained", "agent: it grants no claims: libvirt is lost"}),
    ],
)
def test_hosts_that_take_no_guest_are_listed_with_reason_and_what_they_would_add(filters, refused):
    hosts = [
        host_state("off", service=ServiceState(disabled=True, disabled_reason="disks")),
        host_state("drained", service=ServiceState(draining="reboot")),
        host_state("waiting", up=False, why_not="libvirt is lost"),
    ]
    found = summaries(counted(hosts, LARGE, filters=filters))["large"].refused
    assert {each.why for each in found} == refused
    assert all((each.hosts, each.fits) == (1, 2) for each in found)


def test_hosts_that_are_down_for_different_times_are_one_line():
    hosts = HostsInMemory([host_state(f"cn{number}", seen=number) for number in (1, 2, 3)])
    made = scheduler(hosts, ManualClock(5000.0), filters=("ComputeFilter",))
    [refused] = summaries(counted_by(made, LARGE))["large"].refused
    assert (refused.hosts, refused.fits) == (3, 6)


def test_a_filter_that_ends_the_count_is_named():
    few = aggregate("few", "cn1", max_instances_per_host="7")
    hosts = [host_state("cn1", aggregates=[few])]
    found = of(counted(hosts, filters=("AggregateNumInstancesFilter",)), 1, 512).summary
    [scarce] = found.scarce
    name = "AggregateNumInstancesFilter"
    assert (found.room, scarce.resource) == (7, name)
    assert scarce.message == f"{name}: it has 7 instances, of 7 at most"


def test_each_build_is_finished_before_the_next_one_comes():
    counts = counted([host_state()], filters=("JsonFilter", "IoOpsFilter"))
    idle = {"query": '["=", "$num_io_ops", 0]'}
    assert of(counts, 1, 512, scheduler_hints=idle).summary.room == 8


def test_a_filter_of_others_judges_the_host_after_each_build():
    counts = counted([host_state()], filters=("JsonFilter",))
    found = of(counts, 1, 512, scheduler_hints={"query": '["<", "$vcpus_used", 3]'}).summary
    assert (found.room, found.scarce[0].resource) == (3, "JsonFilter")


def test_flavors_of_live_claims_are_counted_and_a_changed_host_alone_is_counted_again():
    agents, manager = two_agents(1, 4096)
    counts = counted(manager)
    [flavor] = counts.capacity().flavors
    assert (flavor.claims, flavor.in_file, flavor.summary.room) == (2, False, 6)
    agents[0].claim(request(1, 4096))
    deliver(manager, *agents[0].messages())
    assert counts.count(60)
    [flavor] = counts.capacity(by="host").flavors
    assert (flavor.claims, flavor.summary.room) == (3, 5)
    assert [(each.name, each.summary.room) for each in flavor.groups] == [("cn1", 2), ("cn2", 3)]


def test_a_flavor_whose_claims_are_not_read_on_all_hosts_yet_is_not_there_yet():
    agents, manager = two_agents(name="new")
    made, seen = scheduler(manager, filters=("ComputeFilter",)), []
    counts = FleetCounts(
        lambda: made.parts, pause=lambda: seen.append(counts.capacity("new").flavors)
    )
    assert not counts.count(0)
    assert counts.capacity("new").flavors == ()
    assert counts.count(60)
    assert seen[: len(agents)] == [(), ()]
    [flavor] = counts.capacity("new").flavors
    assert flavor.claims == len(agents)


def test_a_host_that_is_gone_is_not_counted():
    view = HostsInMemory([host_state("cn1"), host_state("cn2")])
    counts = counted(view, LARGE)
    del view.states[host_state("cn2").uuid]
    assert counts.count(60)
    assert summaries(counts)["large"].room == 2


def test_other_filters_count_anew():
    view = HostsInMemory([host_state("cn1", service=ServiceState(disabled=True))])
    made = scheduler(view, filters=("ComputeFilter",))
    counts = counted_by(made, LARGE)
    assert summaries(counts)["large"].room == 0
    other = scheduler(view, filters=()).parts
    made.reconfigure(other.filters, other.weighers, other.options)
    assert counts.count(60)
    assert summaries(counts)["large"].room == 2


def test_what_is_not_counted_in_time_is_pending():
    made = scheduler(HostsInMemory([host_state("cn1"), host_state("cn2")]))
    counts = FleetCounts(lambda: made.parts, lambda: [LARGE])
    assert not counts.count(0)
    [large] = counts.capacity().flavors
    assert (large.pending, large.summary.hosts, large.summary.at_least) == (2, 0, True)
    assert counts.count(60)
    [large] = counts.capacity().flavors
    assert (large.pending, large.summary.room, large.summary.at_least) == (0, 4, False)


def test_groups_are_zones_and_aggregates():
    zone = aggregate("az1", "cn1", availability_zone="az1")
    fast = aggregate("fast", "cn1", "cn2")
    groups = {"cn1": [zone, fast], "cn2": [fast], "cn3": []}
    hosts = [host_state(name, aggregates=group) for name, group in groups.items()]
    counts = counted(hosts, LARGE)

    def rooms(by):
        [flavor] = counts.capacity(by=by).flavors
        return [(each.name, each.summary.hosts, each.summary.room) for each in flavor.groups]

    assert rooms("zone") == [("az1", 1, 2), ("nova", 2, 4)]
    assert rooms("aggregate") == [("az1", 1, 2), ("fast", 2, 4), (None, 1, 2)]


def test_a_flavor_beyond_the_limit_is_counted_when_it_is_asked():
    flavors = [Flavor(name=f"f{n:04}", vcpus=1 + n, memory_mb=512) for n in range(MAX_FLAVORS + 2)]
    counts = counted([], *flavors)
    assert (len(counts.capacity().flavors), counts.capacity().left_out) == (MAX_FLAVORS, 2)
    [last] = counts.capacity(only=flavors[-1].name).flavors
    assert (last.name, last.summary.hosts) == (flavors[-1].name, 0)
    assert counts.capacity(only="unknown").flavors == ()


def test_a_flavor_that_no_host_can_take_as_it_is_written_has_an_error():
    wrong = replace(LARGE, extra_specs={"hw:cpu_policy": "odd"})
    [found] = counted([host_state()], wrong).capacity().flavors
    assert "hw:cpu_policy" in found.error
    assert found.summary.room == 0


def test_what_only_placement_decides_has_no_number():
    counts = counted([host_state()], placement=object())
    found = of(counts, extra_specs={"trait:HW_CPU_X86_AVX": "required"})
    assert (found.summary, found.undecided) == (None, "required=HW_CPU_X86_AVX")
    assert of(counted([host_state()], placement=object())).summary.room == 8


def test_units_that_no_agent_offers_may_be_those_of_another_service():
    licensed = {"resources:CUSTOM_LICENSE": "1"}
    found = of(counted([host_state()], placement=object()), extra_specs=licensed)
    assert (found.summary, "CUSTOM_LICENSE:1" in found.undecided) == (None, True)
    found = of(counted([host_state()]), extra_specs=licensed)
    assert (found.summary.room, found.undecided) == (0, "")


def test_aggregates_that_placement_searches_are_judged_from_the_own_ones():
    racks = aggregate("racks", "cn1", filter_tenant_id="p1")
    view = HostsInMemory([host_state("cn1", aggregates=[racks]), host_state("cn2")])
    limited = SchedulerOptions(limit_tenants_to_placement_aggregate=True)
    made = scheduler(view, options=limited, placement=object())
    counts = FleetCounts(lambda: made.parts)

    def found():
        counts.of_request(spec(project_id="p1"))
        assert counts.count(60)
        groups = counts.of_request(spec(project_id="p1"), by="host").groups
        return {each.name: each.summary.room for each in groups}

    assert found() == {"cn1": 8, "cn2": 8}
    view.aggregates = (racks,)
    assert found() == {"cn1": 8, "cn2": 0}


def test_while_no_host_can_be_selected_for_a_flavor_it_has_an_error_and_no_room():
    made = scheduler(HostsInMemory([host_state("cn1")]), placement=object())
    needed = SchedulerOptions(
        limit_tenants_to_placement_aggregate=True, placement_aggregate_required_for_tenants=True
    )
    counts = FleetCounts(lambda: made.parts, lambda: [LARGE])

    def found(options):
        made.reconfigure(made.parts.filters, made.parts.weighers, options)
        assert counts.count(60)
        [large] = counts.capacity().flavors
        return "no aggregate is reserved" in large.error, large.summary.room

    assert found(SchedulerOptions()) == (False, 2)
    assert found(needed) == (True, 0)
    assert found(SchedulerOptions()) == (False, 2)


def claimed(*builds):
    """The counts of a host with these guests, with the filter of images by aggregates."""
    agent = ReportingAgent("cn1", host(numa=PINNING, cpu_allocation_ratio=4.0))
    for build in builds:
        assert agent.claim(build)
    manager = reported(agent)
    manager.set_aggregates([aggregate("windows", "cn1", os_distro="windows")])
    return counted(manager, filters=("AggregateImagePropertiesIsolation",)).capacity().flavors


def guest(image=(), **specs):
    image = Image(properties=dict(image))
    return request(1, 512, name="f", extra_specs=specs, instance={"image": image})


def test_a_flavor_alone_is_asked_for_without_an_image():
    [found] = claimed(guest({"os_distro": "linux"}), guest())
    assert (found.name, found.claims) == ("f", 2)
    assert found.summary.room
    dedicated = {"hw_cpu_policy": "dedicated", "os_distro": "linux"}
    [alone, variant] = claimed(guest(), guest(dedicated))
    assert (alone.name, variant.name.partition("#")[0]) == ("f", "f")
    assert (bool(alone.summary.room), variant.summary.room) == (True, 0)
    assert variant.summary.refused[0].why.startswith("AggregateImagePropertiesIsolation: ")


def test_moves_groups_and_wrong_requests_are_refused():
    counts = counted([host_state()], filters=("SimpleCIDRAffinityFilter",))
    for wrong in (
        {"purpose": "resize"},
        {"instance_group": InstanceGroup(policy="affinity")},
        {"scheduler_hints": {"build_near_host_ip": "odd"}},
    ):
        with pytest.raises(InvalidRequest):
            counts.of_request(spec(**wrong))
    with pytest.raises(InvalidFlavor):
        counts.of_request(spec(extra_specs={"hw:cpu_policy": "odd"}))
