"""Life cycles of instances whose steps are merged with those of an audit, on the real tracker.

An audit has three steps (snapshot, observe, apply); a life cycle has at most five. In every order
and after every step: no domain of a claim runs without that claim, and no claim is lost. A last
audit finds exactly what is there.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from rtagent import claims
from rtagent.claims import instance_claim
from rtagent.errors import ClaimExpired, ClaimNotFound
from rtagent.model.assignment import Assignment
from rtagent.model.claim import ACTIVE
from rtagent.model.domain_usage import Occupancy
from rtagent.reconcile.drift import orphans, suspects
from tests.support.agents import LEASE, Agent
from tests.support.hosts import DEDICATED, call, request, uid
from tests.support.stores import assert_loads

#: What a conductor and its hypervisor do with one instance, step by step.
CYCLES = {
    "plain": ("claim", "activate", "spawn", "destroy", "release"),  # also a shelved one
    "hard reboot": ("claim", "activate", "spawn", "destroy", "spawn"),
    "claimed again": ("claim", "abort", "claim", "activate", "spawn"),
    "slow build": ("claim", "lapse", "renew", "activate", "spawn"),
    "too slow": ("claim", "lapse", "activate", "spawn", "destroy"),
    "adopted": ("spawn", "destroy", "claim", "activate", "spawn"),
    "foreign": ("start_foreign", "grow", "destroy", "start_foreign"),
}


class Host(Agent):
    """An agent, and what its calls returned.

    :param extra_specs: of every flavor.
    """

    def __init__(self, extra_specs: Mapping[str, str]) -> None:
        super().__init__()
        self.extra_specs = extra_specs
        self.held: dict[str, str] = {}  # owner -> claim uuid, as returned
        self.lapsing: set[str] = set()  # owners whose lease has lapsed and was not renewed
        self.claimed: set[str] = set()
        self.never_foreign: set[str] = set()  # owners whose domain never runs without a claim

    def check(self) -> None:
        """Check what is true after every step."""
        state = self.state
        for owner, claim_uuid in self.held.items():
            live = claim_uuid in state.claims
            assert live or owner in self.lapsing, f"the claim of {owner} is lost"
            running = owner in self.world.domains and owner in self.claimed
            assert live or not running, f"{owner} runs without a claim"
        self.check_cpus()
        foreign = self.never_foreign & set(state.domain_usages)
        assert not foreign, f"counted as foreign: {foreign}"

    def check_cpus(self) -> None:
        """Check that the CPUs of a claimed domain are allocated to its owner."""
        units = self.state.units
        for owner in self.claimed & set(self.world.domains):
            pinned = self.world.domains[owner].occupancy.pcpus & DEDICATED
            assert {units.get(("PCPU", str(cpu))) for cpu in pinned} <= {owner}


class Cycle:
    """The life cycle of one instance: each call does one step."""

    def __init__(self, here: Host, owner: str, steps: Sequence[str]) -> None:
        self.here, self.owner = here, owner
        self.steps = iter(steps)
        self.given_up = False
        self.bound: Assignment | None = None
        if steps[0] == "claim":
            here.never_foreign.add(owner)

    def __call__(self) -> None:
        step = next(self.steps)
        if not self.given_up:
            getattr(self, step)()
        self.here.check()

    def claim(self) -> None:
        if self.owner in self.here.world.domains:
            self.here.world.destroy(self.owner)
        build = request(2, 1024, owner=self.owner, extra_specs=self.here.extra_specs)
        made = self.here.tracker.create(instance_claim, call(), build)
        self.here.held[self.owner] = made.uuid
        self.bound = made.numa_topology
        self.here.lapsing.discard(self.owner)

    def activate(self) -> None:
        self._verb("activate_claim")

    def renew(self) -> None:
        self._verb("renew_claim")

    def _verb(self, verb: str) -> None:
        """A caller that receives `ClaimExpired` starts no domain."""
        claim_uuid = self.here.held[self.owner]
        try:
            made = self.here.tracker.change(getattr(claims, verb), call(verb), claim_uuid)
        except (ClaimExpired, ClaimNotFound):
            assert self.owner in self.here.lapsing
            del self.here.held[self.owner]
            self.given_up = True
        else:
            self.here.lapsing.discard(self.owner)
            assert verb != "activate_claim" or made.state == ACTIVE

    def lapse(self) -> None:
        self.here.clock.advance(LEASE + 1)
        self.here.lapsing.update(
            claim.owner_id
            for claim in self.here.state.claims.values()
            if claim.uuid in self.here.tracker.lapsed()
        )

    def spawn(self) -> None:
        if self.owner in self.here.held:
            self.here.claimed.add(self.owner)
        bound = self.bound.allowed if self.bound else frozenset()
        self.here.world.start_domain(self.owner, 2, 1024, occupancy=Occupancy(pcpus=bound))

    def destroy(self) -> None:
        self.here.world.destroy(self.owner)

    def abort(self) -> None:
        self._end("abort_instance_claim")

    def release(self) -> None:
        self._end("release_claim")

    def _end(self, verb: str) -> None:
        claim_uuid = self.here.held.pop(self.owner, None)
        if claim_uuid is not None:
            self.here.tracker.execute(getattr(claims, verb), call(verb), claim_uuid)

    def start_foreign(self) -> None:
        self.here.world.start_domain(self.owner, 1, 512)

    def grow(self) -> None:
        self.here.world.start_domain(self.owner, 3, 2048)


def run_order(
    order: Sequence[int],
    cycles: Sequence[Sequence[str]],
    audits: int = 1,
    extra_specs: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run one order: each number is a cycle's next step, ``len(cycles)`` the audit's."""
    here = Host(extra_specs)
    instances = [Cycle(here, uid(n + 1), steps) for n, steps in enumerate(cycles)]
    todo = iter(order)

    def until_audit_moves() -> None:
        for number in todo:
            if number == len(instances):
                return
            instances[number]()

    for _ in range(audits):
        until_audit_moves()  # then the snapshot is taken
        here.world.between = lambda step: (
            until_audit_moves() if step in ("list", "finish") else None
        )
        here.auditor.run("test")
        here.world.between = lambda step: None
        here.check()
    until_audit_moves()
    settle(here)


def settle(here: Host) -> None:
    """Check that a last audit finds exactly what is there, and a restart finds the same."""
    here.auditor.run("last")
    here.check()
    state = here.state
    state.check()
    assert here.auditor.last is not None and here.auditor.last.skipped == 0
    domains = set(here.world.domains)
    assert {h.domain_uuid for h in orphans(state)} == domains - set(state.owners)
    assert {c.owner_id for c in suspects(state)} == {
        c.owner_id for c in state.claims.values() if c.state == ACTIVE
    } - domains
    assert_loads(here.store, state)


def all_orders(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every way to merge sequences of these lengths."""
    total = sum(lengths)
    first, *rest = lengths
    if not rest:
        yield (0,) * first
        return
    for places in itertools.combinations(range(total), first):
        mine = set(places)
        for other in all_orders(rest):
            others = iter(other)
            yield tuple(0 if i in mine else next(others) + 1 for i in range(total))


#: In a short run, two cycles meet in one of so many ways. Each way of the shorter one has at least
#: 35, so each of them still meets two of the other.
SHARE = 16


def splits(cycles: Sequence[Sequence[str]], *, long: bool) -> Iterator[tuple[int, ...]]:
    """Every way to distribute each cycle's steps around the audit's three; steps of different
    instances between the same two steps of the audit have one order only, and of two equal cycles
    either one comes first.

    :param long: each way of one cycle with each way of the other; if not, with some of them.
    """
    lengths = [len(steps) for steps in cycles]
    ways = [tuple(itertools.combinations_with_replacement(range(4), length)) for length in lengths]
    equal = len(set(cycles)) == 1
    for numbered in itertools.product(*map(enumerate, ways)):
        chosen = [places for _, places in numbered]
        if equal and chosen != sorted(chosen):
            continue
        if not long and sum(number for number, _ in numbered) % SHARE:
            continue
        order: list[int] = []
        for segment in range(4):
            for number, places in enumerate(chosen):
                order += [number] * places.count(segment)
            order += [len(lengths)] * (segment < 3)
        yield tuple(order)


def run_all(orders: Iterator[tuple[int, ...]], check: Callable[[tuple[int, ...]], None]) -> int:
    count = 0
    for order in orders:
        try:
            check(order)
        except AssertionError as error:
            raise AssertionError(f"in the order {order}: {error}") from error
        count += 1
    return count


#: Every two life cycles; then those that both begin with a claim, and the others.
PAIRS = list(itertools.combinations_with_replacement(CYCLES, 2))
CLAIMED = [pair for pair in PAIRS if all(CYCLES[name][0] == "claim" for name in pair)]
UNCLAIMED = [pair for pair in PAIRS if pair not in CLAIMED]
