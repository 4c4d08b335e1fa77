"""The NUMA fit against all possible placements: it finds a valid one exactly if one exists."""

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from rtagent.model.assignment import CpuTopology
from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.policy import NetworkPolicy, NumaPolicy
from rtagent.model.request import NetworkMetadata
from rtagent.model.usage import NUMA_NOTHING, NumaUsage, assignment_usage
from rtagent.numa.fit import Fitted, fit
from rtagent.numa.host_cells import CellLimits, HostCells
from rtagent.numa.requirements import DescribedCell, NumaRequirements
from tests.property.numa_oracle import placements_exist, verify
from tests.support.numa_hosts import HUGE, LARGE, SMALL, cell, topology

RATIOS = st.sampled_from([Decimal(1), Decimal("0.5"), Decimal("1.5"), Decimal(4)])


SOME_CELLS = st.frozensets(st.integers(0, 3), min_size=1)
NETWORKS = st.builds(
    NetworkPolicy,
    physnets=st.dictionaries(st.sampled_from(["foo", "bar"]), SOME_CELLS),
    tunnels=st.one_of(st.just(frozenset()), SOME_CELLS),
)


@st.composite
def topologies(draw):
    """Draw up to three cells of up to eight CPUs, some without memory, some without CPUs."""
    cells, first = [], 0
    for number in range(draw(st.sampled_from([1, 2, 3, 3]))):
        threads = draw(st.sampled_from([1, 2, 2, 2, 4]))
        cores = draw(st.sampled_from([8 // threads] * 4 + [1, 0]))
        huge = draw(st.sampled_from([{}, {LARGE: 512}, {LARGE: 256, HUGE: 2}]))
        memory = draw(st.sampled_from([4096, 4096, 4096, 4096, 5000, 0]))
        one = cell(
            number, cores, threads, memory_mb=memory, huge=huge if memory else {}, first=first
        )
        first += cores * threads
        cells.append(one)
    return topology(*cells)


@st.composite
def hosts(draw):
    """Draw a topology with CPU sets, reserved pages and usage."""
    there = draw(topologies())
    dedicated, shared = draw(cpu_sets(there))
    return HostCells(
        name="cn1",
        topology=there,
        usage=draw(usages(there, dedicated)),
        policy=NumaPolicy(
            cpu_dedicated_set=dedicated or None,
            cpu_shared_set=draw(st.sampled_from([shared or None, None])),
            packing=draw(st.booleans()),
            reserved_huge_pages=draw(st.sampled_from([{}, {0: {LARGE: 100, HUGE: 1}}])),
            networks=draw(NETWORKS),
        ),
    )


@st.composite
def cpu_sets(draw, there):
    """Draw dedicated and shared CPUs, most often by whole cores."""
    by_core = draw(st.sampled_from([True, True, True, False]))
    sets = {"dedicated": set(), "shared": set(), "neither": set()}
    role = st.sampled_from(["dedicated"] * 5 + ["shared", "shared", "neither"])
    for one in there.cells:
        for core in one.siblings:
            for together in [core] if by_core else [{cpu} for cpu in sorted(core)]:
                sets[draw(role)] |= together
    return frozenset(sets["dedicated"]), frozenset(sets["shared"])


@st.composite
def usages(draw, there, dedicated):
    """Draw what is used of the CPUs, cells and pages."""
    used = st.sampled_from([0] * draw(st.sampled_from([2, 9, 9])) + [1])
    pinned = {cpu: 1 for cpu in sorted(dedicated) if draw(used)}
    kept = {cpu: 1 for cpu in sorted(dedicated - pinned.keys()) if draw(used)}
    pages = {
        (one.id, size): draw(st.integers(1, count))
        for one in there.cells
        for size, count in one.pages.items()
        if size != SMALL and draw(st.booleans())
    }
    memory = {
        one.id: draw(st.integers(0, 3000))
        + sum(size * n for (c, size), n in pages.items() if c == one.id) // 1024
        for one in there.cells
    }
    vcpus = {one.id: draw(st.integers(0, 4)) for one in there.cells}
    return NumaUsage(pinned=pinned, kept=kept, vcpus=vcpus, memory_mb=memory, pages=pages)


@st.composite
def guests(draw):
    """Draw up to three cells of up to four vCPUs, with any policies."""
    policy = draw(st.sampled_from(["shared", "dedicated", "dedicated", "dedicated", "mixed"]))
    sizes = [*[None] * 6, "small", "large", "any", SMALL, LARGE, HUGE]
    pagesize = draw(st.sampled_from(sizes))
    cells, first = [], 0
    for _ in range(draw(st.sampled_from([1, 2, 2, 3]))):
        vcpus = range(first, first + draw(st.sampled_from([0, 1, 1, 2, 2, 3, 4])))
        first += len(vcpus)
        pcpuset = {
            "shared": frozenset(),
            "dedicated": frozenset(vcpus),
            "mixed": frozenset(cpu for cpu in vcpus if draw(st.booleans())),
        }[policy]
        cells.append(
            DescribedCell(
                cpuset=frozenset(vcpus) - pcpuset,
                pcpuset=pcpuset,
                memory=draw(st.sampled_from([256, 256, 512, 512, 1024, 1025, 2048])),
                pagesize=pagesize,
            )
        )
    threads = ["prefer"] if policy == "shared" else ["prefer", "isolate", "require"]
    emulator = [None, "share"] if policy == "shared" else [None, "share", "isolate"]
    emulator_policy = draw(st.sampled_from(emulator))
    dedicated = sum(len(one.pcpuset) for one in cells)
    return NumaRequirements(
        cells=tuple(cells),
        vcpus=first - dedicated,
        pcpus=dedicated + (emulator_policy == "isolate"),
        cpu_policy=policy,
        cpu_thread_policy=draw(st.sampled_from(threads)),
        emulator_threads_policy=emulator_policy,
        realtime=draw(realtime_vcpus(cells, first, emulator_policy)),
        networks=draw(st.one_of(st.just(NetworkMetadata()), ATTACHED)),
        cpu_topology=CpuTopology(sockets=max(first, 1), cores=1, threads=1),
    )


ATTACHED = st.builds(
    NetworkMetadata,
    physnets=st.sampled_from([(), ("foo",), ("foo", "bar"), ("other",)]),
    tunneled=st.booleans(),
)


@st.composite
def realtime_vcpus(draw, cells, vcpus, emulator_policy):
    """Draw realtime vCPUs, all of them only if the emulator has a policy."""
    dedicated = sorted(frozenset[int]().union(*(one.pcpuset for one in cells)))
    realtime = frozenset(cpu for cpu in dedicated if draw(st.booleans()))
    return frozenset() if len(realtime) == vcpus and emulator_policy is None else realtime


LIMITS = st.builds(CellLimits, cpu_allocation_ratio=RATIOS, ram_allocation_ratio=RATIOS)


class NearCells:
    """Devices on some cells; the guest must be on at least so many of these."""

    def __init__(self, cells, least):
        self._cells, self._least = frozenset(cells), least

    def weight(self, number):
        return -int(number in self._cells)

    def possible(self, cells):
        return len(self._cells & cells) >= self._least

    def refusal(self, cells):
        if self.possible(frozenset(cells)):
            return ()
        return (_no_devices(self._least),)


class InOrder:
    """Devices that accept placements by their order, and rule out nothing beforehand."""

    def __init__(self, accepted):
        self._accepted = frozenset(accepted)

    def weight(self, number):
        return 0

    def possible(self, cells):
        return True

    def refusal(self, cells):
        return () if cells in self._accepted else (_no_devices(1),)


def _no_devices(number):
    return Reason(
        code=ReasonCode.INSUFFICIENT,
        resource="PCI",
        where="cn1",
        requested=number,
        available=0,
        unit="devices",
    )


DEVICES = st.one_of(
    st.none(),
    st.builds(NearCells, st.sets(st.integers(0, 3)), st.integers(0, 2)),
    st.builds(InOrder, st.sets(st.permutations([0, 1, 2]).map(lambda p: tuple(p[:2])))),
)


@settings(max_examples=5 * settings.default.max_examples)
@given(hosts(), guests(), LIMITS, DEVICES)
def test_placement_is_found_exactly_if_one_exists(host, guest, limits, devices):
    answer = fit(guest, host, limits, devices)
    assert answer == fit(guest, host, limits, devices)
    if isinstance(answer, Fitted):
        assert verify(host, guest, limits, answer.assignment, devices) == []
        return
    assert answer.reasons
    assert not placements_exist(host, guest, limits, devices)
    misses = [reason.miss for reason in answer.reasons]
    assert misses == sorted(misses)
    for reason in answer.reasons:
        assert reason.available >= 0
        assert reason.requested > reason.available
        assert str(reason.requested) in str(reason)


@given(hosts(), st.lists(guests(), max_size=6), LIMITS)
def test_successive_guests_never_share_a_pinned_cpu(host, new_guests, limits):
    usage, running = NUMA_NOTHING, []
    for guest in new_guests:
        there = HostCells(name=host.name, topology=host.topology, usage=usage, policy=host.policy)
        answer = fit(guest, there, limits)
        if isinstance(answer, Fitted):
            running.append(answer.assignment)
            usage = usage.plus(assignment_usage(answer.assignment))
    pinned = [cpu for one in running for cpu in one.taken]
    assert len(pinned) == len(set(pinned))
    assert not any(usage.pinned.keys() & one.shared_pcpus for r in running for one in r.cells)
    for one in reversed(running):
        usage = usage.minus(assignment_usage(one))
    assert usage == NUMA_NOTHING
