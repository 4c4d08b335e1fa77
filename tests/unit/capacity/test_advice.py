"""Advice: which guests move, how, and what is said if none helps."""

from msgspec.structs import replace

from rtagent.model.device import PciDevices
from rtagent.model.policy import PciPolicy
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec
from rtagent.scheduler.fleet import advised, ask
from tests.support.device_states import running
from tests.support.host_states import aggregate
from tests.support.hosts import PINNED, PINNING, host, request
from tests.support.pci_hosts import ALIASES, GPU_0, gpu, record
from tests.support.reporting_agents import ReportingAgent, reported
from tests.support.scheduling import scheduler

#: Two dedicated CPUs in cell 0, four in cell 1, and a GPU.
EMPTY = host(numa=PINNING, pci=PciPolicy(aliases=ALIASES))
HOST = replace(EMPTY, devices=PciDevices(record([gpu(GPU_0, 1)])))


def agents(*guests):
    """An agent for each list of guests: the vCPUs, the memory and the extra specs of each."""
    made = [ReportingAgent(f"h{number}", HOST) for number in range(len(guests))]
    for agent, listed in zip(made, guests, strict=True):
        for vcpus, memory_mb, specs in listed:
            others = {**PINNED, **specs}
            facts = {"vm_state": others.pop("vm_state", "active"), "display_name": f"g{memory_mb}"}
            claim = agent.claim(request(vcpus, memory_mb, instance=facts, extra_specs=others))
            agent.state = running(agent.state, claim)
    return made


def pinned(vcpus, **fields):
    return RequestSpec(flavor=Flavor(vcpus=vcpus, memory_mb=256, extra_specs=PINNED), **fields)


def advice(made, spec, count=1, is_over=lambda: False, **fields):
    return advised(ask(spec), count, scheduler(reported(*made), **fields).parts, is_over)


def moves(found):
    return [(move.name, move.source, move.destination, move.kind) for move in found.moves]


def test_a_guest_with_a_device_is_stopped_for_its_move_and_the_advice_says_why():
    with_gpu = {"pci_passthrough:alias": "gpu:1"}
    found = advice(agents([(4, 1024, with_gpu)], [(1, 256, {})]), pinned(6, ignore_hosts=("h1",)))
    assert found.never == "needs 6 CPUs (PCPU) in one cell, the largest has 4"
    found = advice(agents([(3, 1024, with_gpu)], [(1, 256, {})]), pinned(4, ignore_hosts=("h1",)))
    assert moves(found) == [("g1024", "h0", "h1", "migration")]
    assert found.moves[0].why_cold == f"it has the device {GPU_0}"


def test_a_guest_that_is_neither_running_nor_stopped_does_not_move():
    asked = pinned(4, ignore_hosts=("h1",))
    assert advice(agents([(3, 256, {"vm_state": "paused"})], []), asked).moves == ()
    made = agents([], [])
    assert made[0].claim(request(3, 256, instance={"vm_state": "active"}, extra_specs=PINNED))
    assert advice(made, asked).moves == ()  # it is being built


def test_a_guest_makes_way_for_another_one_at_its_destination():
    made = agents([(4, 256, {})], [(3, 128, {})], [(1, 512, {})] * 3)
    found = advice(made, pinned(4, ignore_hosts=("h1", "h2")))
    g128, g256 = ("g128", "h1", "h2"), ("g256", "h0", "h1")
    assert moves(found) == [(*g128, "live-migration"), (*g256, "live-migration")]


def test_guests_of_several_hosts_move_if_one_host_makes_too_little_room():
    made = agents([(3, 256, {})], [(3, 512, {})], [], [])
    found = advice(made, pinned(4, ignore_hosts=("h2", "h3")), count=2)
    assert {(name, source) for name, source, *_ in moves(found)} == {("g256", "h0"), ("g512", "h1")}
    assert found.room_after == 2


def test_what_placement_alone_decides_on_is_not_known_and_such_a_guest_does_not_move():
    trait = {"trait:CUSTOM_SSD": "required"}
    made = agents([(3, 256, trait)], [])
    asked, with_placement = pinned(4, ignore_hosts=("h1",)), {"placement": object()}
    assert moves(advice(made, asked))
    assert advice(made, asked, **with_placement).moves == ()
    traits = replace(asked.flavor, extra_specs={**PINNED, **trait})
    found = advice(made, replace(asked, flavor=traits), **with_placement)
    assert found.undecided == "required=CUSTOM_SSD"


def test_guests_stay_in_their_zone():
    manager = reported(*agents([(3, 256, {})], []))
    manager.set_aggregates([aggregate("east", "h0", availability_zone="east")])
    spec = pinned(4, availability_zone="east")
    found = advised(ask(spec), 1, scheduler(manager).parts, lambda: False)
    assert (found.moves, found.no_destination) == ((), ())


def test_without_a_solution_the_scarce_resources_are_named():
    made = agents([(4, 256, {}), (2, 256, {})], [(4, 512, {}), (2, 512, {})])
    found = advice(made, pinned(4))
    assert (found.moves, found.searched_moves, found.cut_short) == ((), 3, False)
    assert found.scarce[0].host == "h0"
    assert found.leaving in made[0].state.owners
    assert "PCPU: 4 CPUs requested" in found.no_destination[0].reason["message"]


def test_a_search_that_has_to_end_says_how_far_it_came():
    made = agents([(3, 256, {})], [])
    found = advice(made, pinned(4, ignore_hosts=("h1",)), is_over=lambda: True)
    assert (found.moves, found.searched_moves, found.cut_short) == ((), 0, True)


def test_others_get_the_processor_whenever_a_host_was_judged():
    pauses = []

    def is_over():
        pauses.append(None)
        return False

    made = agents(*([(3, 256, {})] for _ in range(8)))
    assert not advice(made, pinned(4), is_over=is_over).moves
    # For the build, its room, what the guests leave, and their two types of moves, all alike.
    assert len(pauses) >= 5 * len(made)
