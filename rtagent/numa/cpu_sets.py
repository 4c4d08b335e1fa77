"""Whether the operator's CPU sets can be what they are on this host."""

from __future__ import annotations

from collections.abc import Iterator

from rtagent.errors import ConfigError
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.topology import Topology


def contradictions(policy: NumaPolicy, reserved_host_cpus: int) -> Iterator[ConfigError]:
    """What is wrong in the options themselves, whatever the host."""
    sets = _sets(policy)
    if reserved_host_cpus and sets:
        rule = "is not combined with [compute] cpu_shared_set or cpu_dedicated_set"
        yield ConfigError(
            group="DEFAULT", option="reserved_host_cpus", value=reserved_host_cpus, rule=rule
        )
    for option, cpus in sets.items():
        if not cpus:
            yield _wrong(option, cpus, "no CPU is left in it")
    both = (policy.cpu_shared_set or frozenset()) & (policy.cpu_dedicated_set or frozenset())
    if both:
        rule = f"CPUs {format_cpu_spec(both)} are in cpu_shared_set, too"
        yield _wrong("cpu_dedicated_set", policy.cpu_dedicated_set or frozenset(), rule)


def check(
    policy: NumaPolicy,
    topology: Topology,
    reserved_host_cpus: int = 0,
    held: frozenset[int] = frozenset(),
) -> frozenset[int]:
    """CPUs of the sets that are absent or offline and that somebody holds: they stay with their
    holder, and are to be reported.

    :param held: host CPUs that claims hold.
    :raises ConfigError: the sets are wrong in themselves, or name a CPU that is absent or offline
        and that nobody holds.
    """
    for error in contradictions(policy, reserved_host_cpus):
        raise error
    for option, cpus in _sets(policy).items():
        for rule in _broken(cpus, topology, held):
            raise _wrong(option, cpus, rule)
    return frozenset[int]().union(*_sets(policy).values()) - topology.cpus


def _sets(policy: NumaPolicy) -> dict[str, frozenset[int]]:
    """Those that are given."""
    options = {
        "cpu_shared_set": policy.cpu_shared_set,
        "cpu_dedicated_set": policy.cpu_dedicated_set,
    }
    return {option: cpus for option, cpus in options.items() if cpus is not None}


def _broken(cpus: frozenset[int], topology: Topology, held: frozenset[int]) -> Iterator[str]:
    """The rules that a set breaks on this host."""
    offline = frozenset[int]().union(*(cell.offline for cell in topology.cells))
    absent = cpus - topology.cpus - offline - held
    if absent:
        yield f"this host has no CPUs {format_cpu_spec(absent)}"
    if cpus & offline - held:
        yield f"CPUs {format_cpu_spec(cpus & offline - held)} are offline"


def _wrong(option: str, cpus: frozenset[int], rule: str) -> ConfigError:
    return ConfigError(group="compute", option=option, value=format_cpu_spec(cpus), rule=rule)
