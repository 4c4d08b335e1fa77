"""Room is exact: claims of a flavor succeed as often as was counted, and then are refused for the
reasons that were counted. What is stranded, no order of further claims uses.
"""

import random

from hypothesis import given
from msgspec import UNSET
from msgspec.structs import replace

from rtagent import claims
from rtagent.allocation.kept_views import host_for_new_owners
from rtagent.capacity.catalogue import catalogue
from rtagent.capacity.room import emptied, judged, room
from rtagent.capacity.stranded import stranded
from rtagent.model.claim import PCI, PCPU, RESOURCE
from rtagent.model.cpuset import parse_cpu_spec
from rtagent.model.decision import Granted
from rtagent.numa.host_cells import host_cells
from tests.property.test_numa_fit import hosts as numa_hosts
from tests.property.test_pci_fit import hosts as pci_hosts
from tests.support.hosts import NOON, call, uid
from tests.support.random_nodes import random_build, random_node

#: The number of flavors that are asked about, and the number of claims at which a test stops.
FLAVORS, MANY = 5, 40


def flavors_of(rng):
    """Requests of some flavors, without limits and named units of their own."""
    builds = [random_build(rng, 20) for _ in range(FLAVORS)]
    return [replace(build, limits=None, extra_resource=None) for build in builds]


def listed(rng, state):
    """A catalogue of random flavors, as a file lists them, and of the live claims."""
    named = [
        replace(build.instance.flavor, name=f"flavor{number}")
        for number, build in enumerate(flavors_of(rng))
    ]
    return [each for each in catalogue(state, named).flavors if each.required]


def claimed(state, build, number):
    owner = uid(70000 + number)
    build = replace(build, instance=replace(build.instance, uuid=owner))
    return claims.instance_claim(state, call(operation_id=owner), NOON, build)


def judging(state):
    return replace(state, policy=replace(state.policy, judge_amounts=UNSET))


@given(numa_hosts(), pci_hosts())
def test_claims_succeed_as_often_as_counted_and_are_refused_for_the_counted_reasons(there, devices):
    rng = random.Random(f"{there} {devices}")
    state = random_node(rng, there, devices)
    for flavor in listed(rng, state):
        counted = room(judged(state), flavor.build, flavor.required, most=MANY)
        after = judging(state)
        for number in range(min(counted.number, MANY)):
            decision = claimed(after, flavor.build, number)
            assert isinstance(decision, Granted), (flavor.name, number, counted)
            after = after.fold(decision.change)
        if counted.number < MANY:
            assert not counted.more
            assert claimed(after, flavor.build, MANY).reasons == counted.reasons
            after.check()
        # A flavor never fits exactly if the empty host refuses it.
        empty = claimed(judging(emptied(state)), flavor.build, 0)
        assert bool(counted.never) is (not counted.number and not isinstance(empty, Granted))


def units(state, kind):
    return {name for each, name in state.units if each == kind}


def check_unused(before, after, part):
    """Check that nothing of a stranded part was used."""
    new = {kind: units(after, kind) - units(before, kind) for kind in (PCPU, PCI, RESOURCE)}
    match part.resource:
        case "PCPU":
            named = map(str, parse_cpu_spec(part.names[0]))
            assert new[PCPU].isdisjoint(named), part
        case "VCPU" | "MEMORY_MB" | "DISK_GB":
            field = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_mb"}
            was, now = (getattr(each.usage, field[part.resource]) for each in (before, after))
            assert was == now, part
        case pages if pages.endswith(" pages"):
            was, now = (free_pages(each, part.cell) for each in (before, after))
            changed = {size for size in was if was[size] != now[size]}
            assert part.number not in {was[size] for size in changed}, part
        case _:
            assert (new[PCI] | new[RESOURCE]).isdisjoint(part.names), part


def free_pages(state, cell):
    (found,) = (each for each in host_cells(host_for_new_owners(state)) if each.id == cell)
    return {size: free for size, (_, free) in found.pages.items()}


@given(numa_hosts(), pci_hosts())
def test_no_order_of_further_claims_uses_what_is_stranded(there, devices):
    rng = random.Random(f"{there} {devices}")
    state = judging(random_node(rng, there, devices))
    flavors = listed(rng, state)
    rooms = [(flavor, room(state, flavor.build, flavor.required)) for flavor in flavors]
    parts = stranded(state, rooms)
    for _ in range(3):
        after, number = state, 0
        left = list(flavors)
        while left and number < MANY:
            flavor = rng.choice(left)
            decision = claimed(after, flavor.build, number)
            if isinstance(decision, Granted):
                after, number = after.fold(decision.change), number + 1
            else:
                left.remove(flavor)
        for part in parts:
            check_unused(state, after, part)
