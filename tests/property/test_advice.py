"""Advice is true: carried out on the agents' own states, move by move, it makes the room that it
promises; and of up to two moves, none are cheaper, and none help where it says so.
"""

import itertools
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent import claims
from rtagent.conf.scheduler import DEFAULT_FILTERS
from rtagent.errors import RequestError
from rtagent.lifecycle.moves import (
    drop_move_claim_at_source,
    finish_move,
    move_claim,
    start_move_out,
)
from rtagent.model.decision import Granted
from rtagent.model.device import PciDevices
from rtagent.model.migration import MigrationFacts, MoveRequest, SourceFacts
from rtagent.model.observation import NEVER_OBSERVED
from rtagent.model.policy import PciPolicy
from rtagent.model.request import BuildRequest, Flavor, Instance
from rtagent.model.server import RequestSpec
from rtagent.scheduler.fleet import advised, ask
from tests.support.hosts import NOON, PINNED, PINNING, call, host, uid
from tests.support.pci_hosts import ALIASES, GPU_0, GPU_1, gpu, record
from tests.support.reporting_agents import ReportingAgent, reported
from tests.support.scheduling import scheduler

LARGE = {**PINNED, "hw:mem_page_size": "2MB"}
FLAVORS = tuple(
    Flavor(vcpus=vcpus, memory_mb=memory_mb, extra_specs=extra_specs)
    for vcpus, memory_mb, extra_specs in (
        (1, 2048, {}),
        (1, 6144, {}),
        *((vcpus, 256 * vcpus, PINNED) for vcpus in (1, 1, 2, 3, 4)),
        (2, 512, LARGE),
        (1, 1024, {"pci_passthrough:alias": "gpu:1"}),
        (4, 1024, {**PINNED, "hw:numa_nodes": "2"}),
    )
)
HOSTS, GUESTS = 3, 15
#: A search ends after so many steps: those for three moves take long.
LONG = 300


def fleet(rng):
    """Three hosts, of two cells each, with guests on random ones until some do not fit."""
    devices = PciDevices(record([gpu(GPU_0, 0), gpu(GPU_1, 1)]))
    small = host(numa=PINNING, pci=PciPolicy(aliases=ALIASES), cpu_allocation_ratio=2)
    agents = [ReportingAgent(f"h{n}", replace(small, devices=devices)) for n in range(HOSTS)]
    for number in range(GUESTS):
        states = rng.choice(["active", "active", "stopped"])
        instance = Instance(
            uuid=uid(700 + number), flavor=rng.choice(FLAVORS), vm_state=states, project_id="p"
        )
        agent = rng.choice(agents)
        claim = agent.claim(BuildRequest(instance=instance))
        if claim is not None:
            change(agent, claims.activate_claim, claim.uuid)
    return agents


def change(agent, rule, *args, **kwargs):
    agent.state = done(agent.state, rule, *args, **kwargs)
    assert agent.state is not None


def done(state, rule, *args, **kwargs):
    """The state after a call, or None."""
    try:
        decision = rule(state, call(rule.__name__), NOON, *args, **kwargs)
    except RequestError:
        return None
    return state.fold(decision.change) if isinstance(decision, Granted) else None


def advice(agents, flavor, count):
    asked = itertools.count()
    parts = scheduler(reported(*agents), filters=DEFAULT_FILTERS).parts
    return advised(ask(RequestSpec(flavor=flavor)), count, parts, lambda: next(asked) > LONG)


def moved(states, owner, source, dest, kind):
    """The states after each call of a move and its confirmation; None: one is refused."""
    [claim] = states[source].claims_of(owner)
    facts = MigrationFacts(
        uuid=uid(),
        migration_type=kind,
        source_node=states[source].node.hypervisor_hostname,
        dest_node=states[dest].node.hypervisor_hostname,
    )
    instance = Instance(uuid=owner, flavor=claim.flavor, vm_state=claim.instance.vm_state)
    cells = claim.numa_topology.cells if claim.numa_topology else ()
    request = MoveRequest(
        build=BuildRequest(instance=instance),
        migration=facts,
        old_flavor=claim.flavor,
        source=SourceFacts(page_sizes=tuple(cell.pagesize for cell in cells)),
    )
    there = done(states[dest], move_claim, request)
    if there is None:
        return None
    here = done(states[source], start_move_out, owner, facts)
    there = done(there, finish_move, owner, facts)
    here = done(here, drop_move_claim_at_source, owner, facts, NEVER_OBSERVED)
    return {**states, source: here, dest: there}


def room(states, flavor, most):
    """The number of builds that succeed, one after another."""
    number = 0
    for state in states.values():
        build = BuildRequest(instance=Instance(uuid=uid(), flavor=flavor))
        after = done(state, claims.instance_claim, build)
        while after is not None and number < most:
            number += 1
            build = replace(build, instance=replace(build.instance, uuid=uid()))
            after = done(after, claims.instance_claim, build)
    return number


def plans(states, number):
    """All plans of so many moves of guests that are stopped for them: memory, and the states."""
    if not number:
        yield 0, states
        return
    for source, dest in itertools.permutations(states, 2):
        for owner in states[source].owners:
            after = moved(states, owner, source, dest, "migration")
            if after is not None:
                [claim] = states[source].claims_of(owner)
                for memory, end in plans(after, number - 1):
                    yield claim.memory_mb + memory, end


def cheapest(states, flavor, count, number):
    """The least memory of the plans of so many moves that make room, or None."""
    least = None
    for memory, end in plans(states, number):
        if (least is None or memory < least) and room(end, flavor, count) >= count:
            least = memory
    return least


@given(st.integers(0, 2**32), st.sampled_from(FLAVORS[2:]), st.integers(1, 2))
@settings(max_examples=settings.default.max_examples // 2)
def test_builds_succeed_after_the_moves_and_no_plan_of_up_to_two_is_cheaper(seed, flavor, count):
    agents = fleet(Random(seed))
    found = advice(agents, flavor, count)
    before = states = {agent.name: agent.state for agent in agents}
    assert found.room == min(count, room(states, flavor, count))
    for move in found.moves:
        states = moved(states, move.server, move.source, move.destination, move.kind)
        for state in states.values():
            state.check()
    if found.moves:
        assert found.room_after == room(states, flavor, found.room_after + 1) >= count
    if found.room >= count:
        return
    for number in range(1, 1 + min(2, len(found.moves) or found.searched_moves)):
        memory = sum(move.memory_mb for move in found.moves) if number == len(found.moves) else None
        assert cheapest(before, flavor, count, number) == memory
