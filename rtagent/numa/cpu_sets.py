"""Validation of ``cpu_shared_set`` and ``cpu_dedicated_set``."""

from __future__ import annotations

from collections.abc import Iterator

from rtagent.errors import ConfigError
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.policy import NumaPolicy
from rtagent.model.topology import Topology


def contradictions(policy: NumaPolicy, reserved_host_cpus: int) -> Iterator[ConfigError]:
    """Return an error for each rule that the options violate, regardless of the host."""
    sets = _sets(policy)
    if reserved_host_cpus and sets:
        rule = "cannot be combined with [compute] cpu_shared_set or cpu_dedicated_set"
        yield ConfigError(
            group="DEFAULT", option="reserved_host_cpus", value=reserved_host_cpus, rule=rule
        )
    for option, cpus in sets.items():
        if not cpus:
            yield _error(option, cpus, "no CPU is left in it")
    both = (policy.cpu_shared_set or frozenset()) & (policy.cpu_dedicated_set or frozenset())
    if both:
        rule = f"CPUs {format_cpu_spec(both)} are in cpu_shared_set, too"
        yield _error("cpu_dedicated_set", policy.cpu_dedicated_set or frozenset(), rule)


def check(
    policy: NumaPolicy,
    topology: Topology,
    reserved_host_cpus: int = 0,
    claimed: frozenset[int] = frozenset(),
) -> frozenset[int]:
    """Check the CPU sets against this host.

    :param claimed: host CPUs that claims have. They stay assigned to their owners even if they
        disappear.
    :returns: CPUs of the sets that are absent or offline, all of them claimed, to be reported.
    :raises ConfigError: the sets contradict each other, or contain a CPU that is absent or offline
        and not claimed.
    """
    for error in contradictions(policy, reserved_host_cpus):
        raise error
    for option, cpus in _sets(policy).items():
        for rule in _broken_rules(cpus, topology, claimed):
            raise _error(option, cpus, rule)
    return frozenset[int]().union(*_sets(policy).values()) - topology.cpus


def _sets(policy: NumaPolicy) -> dict[str, frozenset[int]]:
    """Return the configured sets, by option."""
    options = {
        "cpu_shared_set": policy.cpu_shared_set,
        "cpu_dedicated_set": policy.cpu_dedicated_set,
    }
    return {option: cpus for option, cpus in options.items() if cpus is not None}


def _broken_rules(
    cpus: frozenset[int], topology: Topology, claimed: frozenset[int]
) -> Iterator[str]:
    offline = frozenset[int]().union(*(cell.offline for cell in topology.cells))
    absent = cpus - topology.cpus - offline - claimed
    if absent:
        yield f"this host has no CPUs {format_cpu_spec(absent)}"
    if cpus & offline - claimed:
        yield f"CPUs {format_cpu_spec(cpus & offline - claimed)} are offline"


def _error(option: str, cpus: frozenset[int], rule: str) -> ConfigError:
    return ConfigError(group="compute", option=option, value=format_cpu_spec(cpus), rule=rule)
