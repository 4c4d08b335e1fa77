"""The host's CPUs: the sets that the operator configures, offline CPUs, and idle siblings."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from rtagent.errors import ConfigError
from rtagent.model.assignment import Assignment
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.policy import NumaPolicy
from rtagent.model.topology import Cell, Topology


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


def with_managed_cpus(seen: Topology, last: Topology, managed: frozenset[int]) -> Topology:
    """Return an observed topology in which the managed CPUs that are off appear as if they were
    online.

    Linux reports neither the siblings nor the socket of an offline CPU (LP2077228). A hypervisor
    that was started while the CPU was off may not report it at all. So all data of these CPUs comes
    from `last`. Everything else is as observed.

    :param last: the result of the previous call; at first, an observation with every managed CPU
        online.
    """
    if not managed:
        return seen
    before = {cell.id: cell for cell in last.cells}
    cells = tuple(
        _cell(cell, before[cell.id], managed) if cell.id in before else cell for cell in seen.cells
    )
    in_cells = frozenset[int]().union(*(cell.cpus for cell in cells))
    return replace(seen, cells=cells, cpus=seen.cpus | in_cells, cpu_info=last.cpu_info)


def cpus_without_cell(seen: Topology, managed: frozenset[int]) -> frozenset[int]:
    """Return the managed CPUs that are online and in no cell, on a host with cells.

    The hypervisor read its cells while these CPUs were off.
    """
    return managed & seen.cpus - _in_cells(seen) if seen.cells else frozenset()


def cells_contain(topology: Topology, cpus: frozenset[int]) -> bool:
    """Return whether each of the CPUs is in a cell."""
    return cpus <= _in_cells(topology)


def _in_cells(topology: Topology) -> frozenset[int]:
    return frozenset[int]().union(*(cell.cpus | cell.offline for cell in topology.cells))


def _cell(seen: Cell, last: Cell, managed: frozenset[int]) -> Cell:
    cpus = seen.cpus | managed & last.cpus
    cores = [core & cpus for core in _joined(*last.siblings, *seen.siblings)]
    return replace(
        seen,
        cpus=cpus,
        offline=seen.offline - cpus,
        siblings=tuple(sorted((core for core in cores if core), key=min)),
        # A wrong socket is reported for a CPU that goes offline during the observation.
        sockets=last.sockets if cpus <= last.cpus else last.sockets | seen.sockets,
    )


def _joined(*parts: frozenset[int]) -> list[frozenset[int]]:
    """Join overlapping parts of cores: a thread whose siblings are offline is reported as a whole
    core.
    """
    cores = list[frozenset[int]]()
    for part in parts:
        touched = [core for core in cores if core & part]
        cores = [core for core in cores if not core & part] + [part.union(*touched)]
    return cores


def with_idle_siblings(
    assignment: Assignment, topology: Topology, policy: NumaPolicy, in_use: Iterable[int]
) -> Assignment:
    """Return the assignment of a guest with the thread policy isolate: it keeps the idle thread
    siblings of its dedicated CPUs.

    :param in_use: host CPUs that cannot be kept, because a guest uses them.
    """
    free = set(policy.dedicated(topology.cpus)).difference(in_use, assignment.taken)
    cores = [core for cell in topology.cells for core in cell.siblings]
    cells = []
    for cell in assignment.cells:
        siblings = frozenset[int]().union(*(core for core in cores if core & cell.taken))
        cells.append(replace(cell, cpuset_kept=siblings & free))
        free -= siblings
    return replace(assignment, cells=tuple(cells))
