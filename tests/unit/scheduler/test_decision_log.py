"""What the scheduler says of its decisions: `explain`, and the log with their reasons."""

import pytest

from rtagent.api import scheduler_documents
from rtagent.scheduler.decision_log import KEPT, MAX_INSTANCES, Comparison, Contender
from rtagent.scheduler.errors import DecisionNotFound, NoValidHost
from rtagent.scheduler.filtered import KEPT as KEPT_REFUSALS
from tests.support.host_states import host_state
from tests.support.hosts import PINNED, PINNING, host, uid
from tests.support.scheduling import HostsInMemory, scheduler, spec


def three_hosts() -> HostsInMemory:
    small = host_state("small", host(reserved_memory_mb=12 * 1024))
    pinning = host_state("pinning", host(numa=PINNING))
    return HostsInMemory([small, host_state("large"), pinning])


def document(chooser, name):
    return scheduler_documents.decision(chooser.decision(name))["decision"]


def test_a_decision_is_found_by_each_of_its_names():
    chooser = scheduler(three_hosts())
    for number in (101, 102):
        chooser.select_destinations(spec(1, 512), [uid(number)])
    _, logged = chooser.decisions()
    for name in (logged.uuid, logged.choices[0].operation_id, uid(101)):
        assert chooser.decision(name).logged == logged


def test_the_newest_decision_of_an_instance_is_found_also_if_it_failed():
    chooser = scheduler(three_hosts())
    chooser.select_destinations(spec(1, 512), [uid(101)])
    with pytest.raises(NoValidHost):
        chooser.select_destinations(spec(99, 512), [uid(101)])
    assert chooser.decision(uid(101)).logged.error
    with pytest.raises(DecisionNotFound, match=uid(103)):
        chooser.decision(uid(103))


def test_a_decision_has_the_weights_and_refusals_that_explain_has_at_that_moment():
    chooser = scheduler(three_hosts(), filters=["ComputeFilter"])
    wanted = spec(1, 8192, ignore_hosts=("pinning",))
    before = {found.host: found for found in chooser.explain(wanted).hosts}
    chooser.select_destinations(wanted, [uid(101)], alternates=True)
    made = document(chooser, uid(101))
    [choice] = made["choices"]
    [contender] = choice["compared"]
    assert (contender.host, contender.weight) == ("large", before["large"].weight)
    refused = {refusal["host"]: refusal for refusal in made["refusals"]}
    assert set(refused) == {"pinning", "small"}
    for name, refusal in refused.items():
        [objection] = before[name].objections
        kept = objection.filter, objection.message, list(objection.reasons)
        assert (refusal["filter"], refusal["message"], refusal["reasons"]) == kept


def test_alternates_are_compared_with_the_weights_that_explain_has():
    hosts = HostsInMemory(
        host_state(name, host(reserved_memory_mb=reserved))
        for name, reserved in (("a", 2048), ("b", 0), ("c", 4096), ("d", 1024))
    )
    chooser = scheduler(hosts)
    before = {found.host: found for found in chooser.explain(spec()).hosts}
    [found] = chooser.select_destinations(spec(), [uid(101)], alternates=True)
    [choice] = document(chooser, uid(101))["choices"]
    assert [contender.host for contender in choice["compared"]] == ["b", "d", "a"]
    assert choice["alternates"] == tuple(other.host for other in found.alternates) == ("d", "a")
    for contender in choice["compared"]:
        expected = before[contender.host]
        assert (contender.weight, contender.weights) == (expected.weight, expected.weights)
    assert choice["why"] == (
        "RAMWeigher alone prefers b to d: 1 against 0.9375, 16384 MB of free memory against 15360"
    )


#: By name: reserved memory in MB, and available devices.
UNLIKE = {"fuller": (2048, 3), "emptier": (0, 4)}
BOTH = ("RAMWeigher", "PCIWeigher")
TOGETHER = "RAMWeigher, PCIWeigher prefer a to b: 2 against 0.875 in all"
PREFERS = "prefers fuller to emptier: 1 against 0.8, 3 free devices against 4"


@pytest.mark.parametrize(
    ("weighers", "hosts", "why"),
    [
        (BOTH, {**UNLIKE, "devices": (0, 8)}, f"PCIWeigher alone {PREFERS}"),
        (BOTH, {"a": (0, 3), "b": (2048, 4)}, TOGETHER),
        (("CPUWeigher",), UNLIKE, "fuller weighs as much"),
        (("RAMWeigher",), {"a": (0, 0)}, "no other host was left to be weighed"),
    ],
)
def test_a_decision_says_why_the_best_of_the_others_was_not_taken(weighers, hosts, why):
    states = [
        host_state(name, host(reserved_memory_mb=reserved), available_devices=devices)
        for name, (reserved, devices) in hosts.items()
    ]
    chooser = scheduler(HostsInMemory(states), weighers=weighers)
    chooser.select_destinations(spec(), [uid(101)])
    [choice] = document(chooser, uid(101))["choices"]
    assert choice["why"] == why


def test_one_of_the_best_hosts_at_random_may_weigh_less():
    lighter = Contender(host="a", nodename="a", node_uuid="a", weight=1.0, weights=())
    heavier = Contender(host="b", nodename="b", node_uuid="b", weight=2.0, weights=())
    made = Comparison(selected=lighter, others=(heavier,), weighers=())
    assert made.why.startswith("b weighs more, and one of the best")


def test_each_instance_is_compared_with_the_hosts_as_they_were_for_it():
    chooser = scheduler(HostsInMemory([host_state("a"), host_state("b")]))
    chooser.select_destinations(spec(1, 1024), [uid(101), uid(102), uid(103)])
    choices = document(chooser, uid(101))["choices"]
    assert [choice["host"] for choice in choices] == ["a", "b", "a"]
    why = "RAMWeigher alone prefers b to a: 1 against 0.9375, 16384 MB of free memory against 15360"
    assert [choice["why"] for choice in choices] == ["b weighs as much", why, "b weighs as much"]


def test_decisions_are_logged_with_their_reasons_newest_first():
    chooser = scheduler(three_hosts())
    [found] = chooser.select_destinations(spec(1, 512), [uid()], alternates=True)
    with pytest.raises(NoValidHost):
        chooser.select_destinations(spec(1, 1024 * 1024), [uid()])
    refused, made = chooser.decisions()
    assert (refused.choices, refused.refused) == ((), {"fit": 3})
    assert "MEMORY_MB: 1048576 MB requested" in str(refused.error)
    [choice] = made.choices
    assert (choice.host, choice.operation_id) == (found.selected.host, found.selected.operation_id)
    assert choice.alternates == tuple(each.host for each in found.alternates)
    assert (made.purpose, made.hosts) == ("build", 3)
    assert made.at <= refused.at


def test_the_log_is_bounded_by_its_decisions_and_their_instances():
    chooser = scheduler(HostsInMemory([]))

    def decide(instances):
        with pytest.raises(NoValidHost, match="no host is known"):
            chooser.select_destinations(spec(), [uid() for _ in range(instances)])

    for _ in range(KEPT + 1):
        decide(1)
    assert len(chooser.decisions()) == KEPT
    for _ in range(MAX_INSTANCES // 1000):
        decide(1000)
    assert [each.instances for each in chooser.decisions()] == [1000] * (MAX_INSTANCES // 1000)
    decide(MAX_INSTANCES + 1)  # the last one is shown in any case
    assert len(chooser.decisions()) == 1


def test_what_is_kept_of_refusals_is_bounded_and_the_others_are_counted():
    hosts = HostsInMemory(host_state(f"cn{number:03}") for number in range(KEPT_REFUSALS + 5))
    chooser = scheduler(hosts)
    with pytest.raises(NoValidHost):
        chooser.select_destinations(spec(99), [uid(101)])
    made = document(chooser, uid(101))
    assert len(made["refusals"]) == KEPT_REFUSALS
    assert made["unlisted"] == 5


def test_every_host_is_explained_best_first_and_nothing_is_assumed():
    hosts = three_hosts()
    before = dict(hosts.states)
    wanted = spec(1, 8192, ignore_hosts=("pinning",))
    found = scheduler(hosts, filters=["ComputeFilter"]).explain(wanted)
    assert [each.rank for each in found.hosts] == [1, None, None]
    large, pinning, small = found.hosts
    [weight] = large.weights
    assert (large.host, weight.weigher, large.weight) == ("large", "RAMWeigher", weight.weight)
    assert large.capacity.free_memory_mb == 16384
    assert [each.filter for each in pinning.objections] == ["ignore_hosts"]
    [objection] = small.objections
    assert objection.filter == "fit"
    [reason] = objection.reasons
    assert [reason[key] for key in ("requested", "available")] == [8192, 4096]
    assert hosts.states == before


def test_a_host_is_explained_by_all_filters_that_refuse_it():
    found = scheduler(three_hosts(), filters=["NUMATopologyFilter"]).explain(
        spec(1, 512, extra_specs=PINNED, ignore_hosts=("small",))
    )
    small = next(each for each in found.hosts if each.host == "small")
    assert [each.filter for each in small.objections][:2] == ["ignore_hosts", "NUMATopologyFilter"]
    assert "cpu_dedicated_set" in small.objections[1].message
    assert found.hosts[0].host == "pinning"
