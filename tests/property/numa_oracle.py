"""The rules that a NUMA placement must follow, and an oracle that tries all placements.

Both are written from the rules alone, without knowledge of how the fit finds a placement.
"""

import itertools
from collections import Counter
from fractions import Fraction

from rtagent.model.assignment import Assignment, CellAssignment

KIB = 1024


def verify(host, required, limits, assignment: Assignment, devices=None) -> list[str]:
    """Return every rule that a placement breaks; none if it is valid."""
    faults = []
    cells = assignment.cells
    if len(cells) != len(required.cells):
        return [f"{len(cells)} cells for {len(required.cells)}"]
    if len({cell.id for cell in cells}) != len(cells):
        faults.append("two guest cells are on one host cell")
    taken = Counter(cpu for cell in cells for cpu in cell.taken)
    if any(count > 1 for count in taken.values()):
        faults.append("a host CPU is taken twice")
    for place, cell in enumerate(cells):
        faults += [
            f"guest cell {place}: {f}" for f in cell_faults(host, required, limits, place, cell)
        ]
        faults += [f"guest cell {place}: {f}" for f in choice_faults(host, required, place, cell)]
    if devices is not None and cells and devices.refusal(tuple(cell.id for cell in cells)):
        faults.append("the devices refuse it")
    if not near_networks(host, required, [cell.id for cell in cells]):
        faults.append("a network is far")
    return faults + emulator_faults(host, required, assignment)


def cell_faults(host, required, limits, place: int, cell: CellAssignment) -> list[str]:
    """Return the rules that a placement of one guest cell breaks."""
    guest = required.cells[place]
    found = [there for there in host.topology.cells if there.id == cell.id]
    if not found:
        return ["there is no such host cell"]
    (there,) = found
    checks = {
        "other vCPUs than asked for": cell.cpuset == guest.cpuset and cell.pcpuset == guest.pcpuset,
        "other memory than asked for": cell.memory == guest.memory,
        "wrong number of emulator CPUs": len(cell.cpuset_reserved)
        == (1 if place == 0 and required.emulator_threads_policy == "isolate" else 0),
        "CPUs that are not free for pinning": cell.taken <= free_pcpus(host, there),
        "a CPU twice": len(set(cell.cpu_pinning.values())) == len(cell.cpu_pinning)
        and not set(cell.cpu_pinning.values()) & cell.cpuset_reserved,
        "threads": threads_ok(host, required, there, cell),
        "shared CPUs": shared_ok(host, limits, there, cell),
        "pages": pages_ok(host, required, limits, guest, there, cell),
        "huge pages": cell.hugepages
        == (cell.pagesize is not None and cell.pagesize != min(there.pages)),
        "memory": guest.pagesize is not None or memory_ok(host, required, limits, there, cell),
    }
    return [rule for rule, holds in checks.items() if not holds]


def choice_faults(host, required, place: int, cell: CellAssignment) -> list[str]:
    """Return the rules on the choice between valid placements that are broken."""
    faults = []
    (there,) = [there for there in host.topology.cells if there.id == cell.id]
    request = required.cells[place].pagesize
    if request in ("large", "any"):
        larger = [s for s in page_sizes(request, there.pages) if s > (cell.pagesize or 0)]
        if any(pages_fit(host, there, size, cell.memory) for size in larger):
            faults.append("a larger page would have done")
    if required.cpu_thread_policy != "isolate":
        usable = [core & free_pcpus(host, there) for core in cores(there)]
        if required.cpu_thread_policy == "require":
            usable = [core for core in usable if len(core) > 1]
        used = sum(1 for core in cores(there) if core & set(cell.cpu_pinning.values()))
        if used > fewest([len(core) for core in usable], len(cell.cpu_pinning)):
            faults.append("spread over more cores than needed")
    return faults


def emulator_faults(host, required, assignment: Assignment) -> list[str]:
    """Return a fault if the emulator runs in the wrong place."""
    if not assignment.cells:
        return []
    here, taken = assignment.emulator_pcpus, in_use(host)
    if required.emulator_threads_policy == "isolate":
        right = assignment.cells[0].cpuset_reserved
    elif required.emulator_threads_policy == "share" and shared_cpus(host) - taken:
        right = shared_cpus(host) - taken
    else:
        beside = {v: cell for cell in assignment.cells for v in cell.vcpus - required.realtime}
        if required.emulator_threads_policy == "share" and required.realtime:
            beside = {v: cell for v, cell in beside.items() if v == min(beside)}
        right = frozenset()
        for vcpu, cell in beside.items():
            pinned = cell.cpu_pinning.get(vcpu)
            right |= cell.shared_pcpus if pinned is None else {pinned}
    return [] if here == right else [f"the emulator is on {set(here)}, not on {set(right)}"]


def in_use(host) -> frozenset[int]:
    return frozenset(host.usage.pinned) | frozenset(host.usage.kept)


def shared_cpus(host) -> frozenset[int]:
    policy = host.policy
    if policy.cpu_shared_set is not None:
        return policy.cpu_shared_set & host.topology.cpus
    return host.topology.cpus if policy.cpu_dedicated_set is None else frozenset()


def free_pcpus(host, there) -> frozenset[int]:
    return ((host.policy.cpu_dedicated_set or frozenset()) & there.cpus) - in_use(host)


def cores(there) -> list[frozenset[int]]:
    known = set().union(*there.siblings) if there.siblings else set()
    return [*there.siblings, *(frozenset({cpu}) for cpu in there.cpus - known)]


def fewest(sizes: list[int], number: int) -> int:
    """Return the smallest number of cores that so many vCPUs fit on."""
    for count, together in enumerate(itertools.accumulate(sorted(sizes, reverse=True)), 1):
        if number and together >= number:
            return count
    return 0


def threads_ok(host, required, there, cell) -> bool:
    on = set(cell.cpu_pinning.values())
    if required.cpu_thread_policy == "isolate":
        mine = on | cell.cpuset_reserved
        touched = [core for core in cores(there) if core & mine]
        alone = all(len(core & mine) == 1 for core in touched)
        siblings = set().union(*touched) - mine if touched else set()
        return alone and siblings == cell.cpuset_kept and siblings <= free_pcpus(host, there)
    if cell.cpuset_kept:
        return False
    if required.cpu_thread_policy == "require":
        touched = [core for core in cores(there) if core & on]
        siblings_free = all(len(core & free_pcpus(host, there)) > 1 for core in touched)
        return siblings_free and sum(len(core & on) == 1 for core in touched) <= 1
    return True


def shared_ok(host, limits, there, cell) -> bool:
    if not cell.cpuset:
        return not cell.shared_pcpus
    here = (shared_cpus(host) & there.cpus) - in_use(host)
    used = host.usage.vcpus.get(there.id, 0) + len(cell.cpuset)
    return (
        cell.shared_pcpus == here
        and len(cell.cpuset) <= len(here)
        and used <= len(here) * Fraction(limits.cpu_allocation_ratio)
    )


def page_sizes(request, pages) -> list[int]:
    sizes = sorted(pages)
    return {"any": sizes, "large": sizes[1:], "small": sizes[:1]}.get(request) or [
        size for size in sizes if size == request
    ]


def page_free(host, there, size) -> int:
    usage, used = host.usage, host.usage.pages.get((there.id, size), 0)
    if size == min(there.pages):
        explicit = sum(s * n for (c, s), n in usage.pages.items() if c == there.id)
        plain = usage.memory_mb.get(there.id, 0) * KIB - explicit
        used += -(-plain // size)
    reserved = host.policy.reserved_huge_pages.get(there.id, {}).get(size, 0)
    return there.pages[size] - reserved - used


def pages_fit(host, there, size, memory) -> bool:
    need = Fraction(memory * KIB, size)
    return need.denominator == 1 and need <= page_free(host, there, size)


def pages_ok(host, required, limits, guest, there, cell) -> bool:
    if guest.pagesize is None:
        return cell.pagesize is None
    return (
        cell.pagesize in page_sizes(guest.pagesize, there.pages)
        and pages_fit(host, there, cell.pagesize, cell.memory)
        and (
            cell.pagesize != min(there.pages)
            or required.cpu_policy == "dedicated"
            or within_ratio(host, limits, there, cell)
        )
    )


def within_ratio(host, limits, there, cell) -> bool:
    used = host.usage.memory_mb.get(there.id, 0)
    return used + cell.memory <= there.memory_mb * Fraction(limits.ram_allocation_ratio)


def memory_ok(host, required, limits, there, cell) -> bool:
    used = host.usage.memory_mb.get(there.id, 0)
    if there.pages:
        size = min(there.pages)
        total, free = there.pages[size] * size, page_free(host, there, size) * size
    else:
        total, free = there.memory_mb * KIB, (there.memory_mb - used) * KIB
    return (
        cell.memory * KIB <= total
        and (required.cpu_policy == "shared" or cell.memory * KIB <= free)
        and (required.cpu_policy == "dedicated" or within_ratio(host, limits, there, cell))
    )


def near_networks(host, required, cells) -> bool:
    """Return whether the guest has a cell of each network that has an affinity."""
    policy, wanted = host.policy.networks, required.networks
    affinities = [policy.physnets[name] for name in wanted.physnets if name in policy.physnets]
    if wanted.tunneled and policy.tunnels:
        affinities.append(policy.tunnels)
    return not cells or all(each & set(cells) for each in affinities)


def emulator_has_place(host, required) -> bool:
    """Return whether the emulator would not starve among realtime vCPUs."""
    others = any(cell.cpuset | cell.pcpuset - required.realtime for cell in required.cells)
    return (
        required.emulator_threads_policy != "share"
        or not required.realtime
        or others
        or bool(shared_cpus(host))
    )


def placements_exist(host, required, limits, devices=None) -> bool:
    """Return whether any placement is valid: try all CPUs, page sizes and orders of cells."""
    if not emulator_has_place(host, required):
        return False
    fits = [
        {
            there.id
            for there in host.topology.cells
            if any(
                not cell_faults(host, required, limits, place, cell)
                for cell in _every(host, required, place, there)
            )
        }
        for place in range(len(required.cells))
    ]
    ids = [there.id for there in host.topology.cells]
    return any(
        all(cell in row for cell, row in zip(order, fits, strict=True))
        and (devices is None or not devices.refusal(order))
        and near_networks(host, required, order)
        for order in itertools.permutations(ids, len(required.cells))
    )


def _every(host, required, place: int, there):
    guest = required.cells[place]
    reserve = int(place == 0 and required.emulator_threads_policy == "isolate")
    free, number = sorted(free_pcpus(host, there)), len(guest.pcpuset)
    sizes = [None] if guest.pagesize is None else sorted(there.pages)
    for pins in itertools.combinations(free, number):
        rest = [cpu for cpu in free if cpu not in pins]
        for reserved in itertools.combinations(rest, reserve):
            for size in sizes:
                yield CellAssignment(
                    id=there.id,
                    memory=guest.memory,
                    cpuset=guest.cpuset,
                    shared_pcpus=(shared_cpus(host) & there.cpus) - in_use(host)
                    if guest.cpuset
                    else frozenset(),
                    cpu_pinning=dict(zip(sorted(guest.pcpuset), pins, strict=True)),
                    cpuset_reserved=frozenset(reserved),
                    cpuset_kept=_kept(required, there, {*pins, *reserved}),
                    pagesize=size,
                    hugepages=size is not None and size != min(there.pages),
                )


def _kept(required, there, mine) -> frozenset[int]:
    if required.cpu_thread_policy != "isolate":
        return frozenset()
    return frozenset(cpu for core in cores(there) if core & mine for cpu in core - mine)
