"""CPU sets against the host: at the first look, at a reload, and when a CPU goes."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ConfigError
from rtagent.model.host import restore
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.policy import Policy
from rtagent.service.cpu_sets import CpuSets
from tests.builders import host
from tests.numa_hosts import NO_SMT, cell, topology
from tests.unit.model.placed import pinned_claim

#: Without CPU 7.
LESS = topology(
    cell(0, threads=1), replace(cell(1, cores=3, threads=1, first=4), offline=frozenset({7}))
)


def policy(dedicated: set[int]) -> Policy:
    return Policy(numa=NumaPolicy(cpu_dedicated_set=frozenset(dedicated)))


def state(there=NO_SMT, claims=(), dedicated=frozenset({6, 7})):
    return restore(replace(host(there), policy=policy(dedicated)), claims, (), 1)


class Host:
    """The state of the moment, and what `CpuSets` tells."""

    def __init__(self, world, state) -> None:
        self.state, self.failed, self.parts = state, [], world.notes.parts
        self.sets = CpuSets(lambda: self.state, world.notes, self.failed.append)


def test_sets_that_the_host_has_are_accepted(world):
    ours = Host(world, state())

    assert ours.sets.look()

    assert (ours.failed, ours.parts["cpus"]) == ([], "pass")


def test_a_cpu_that_is_offline_and_that_nobody_holds_ends_the_start(world):
    ours = Host(world, state(LESS))

    assert not ours.sets.look()

    (error,) = ours.failed
    assert str(error) == "[compute] cpu_dedicated_set = 6-7: CPUs 7 are offline"


def test_a_cpu_that_vanished_while_held_is_kept_and_told(world):
    ours = Host(world, state(LESS, [pinned_claim(7)]))

    assert ours.sets.look()

    assert ours.failed == []
    assert ours.parts["cpus"] == (
        "warn: CPUs 7 are held and not there: they stay with their holders"
    )


def test_a_cpu_that_goes_while_the_agent_runs_is_a_warning(world):
    ours = Host(world, state())
    ours.sets.look()

    ours.state = state(LESS)
    assert ours.sets.look()
    assert ours.failed == []
    assert ours.parts["cpus"] == "warn: [compute] cpu_dedicated_set = 6-7: CPUs 7 are offline"

    ours.state = state()
    assert ours.sets.look()
    assert ours.parts["cpus"] == "pass"


def test_another_policy_is_judged_against_the_host(world):
    ours = Host(world, state(claims=[pinned_claim(7)]))

    ours.sets.check(policy({4}))
    with pytest.raises(ConfigError, match="cpu_dedicated_set = 4,9: this host has no CPUs 9"):
        ours.sets.check(policy({4, 9}))


def test_reserved_cpus_and_sets_are_judged_together(world):
    with pytest.raises(ConfigError, match="reserved_host_cpus = 2"):
        Host(world, state()).sets.check(replace(policy({4}), reserved_cpus=2))


def test_a_host_that_was_never_seen_allows_any(world):
    Host(world, state(None)).sets.check(policy({99}))
