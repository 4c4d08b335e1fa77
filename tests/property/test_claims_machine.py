"""Any order of calls, audits and restarts: an independent book of the claims always agrees.

The book knows nothing of the product's fold, plan or life cycle: it adds up what was answered.
"""

import math
from fractions import Fraction

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from rtagent import claims, errors
from rtagent.audit import Auditor
from rtagent.claims import activate_claim, instance_claim, release_claims, renew_claim, update_usage
from rtagent.lifecycle.adopt_claim import adopt_claim
from rtagent.model.migration import MigrationFacts
from rtagent.model.request import InstanceUpdate
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryStore
from rtagent.tracker import ResourceTracker
from tests.support import hosts
from tests.support.audits import check_views
from tests.support.claims import stated
from tests.support.trackers import enroll

MEMORY_ROOM = math.floor((16384 - 500) * Fraction(11, 10))
OWNERS = [hosts.uid(n) for n in range(1, 6)]


class ClaimsMachine(RuleBasedStateMachine):
    """Five instances on one host; ``book`` is what the answers say that is held.

    ``room`` is what may be claimed in all, ``total`` by one, ``dedicated`` the CPUs for pinning.
    """

    policy = hosts.host(
        cpu_allocation_ratio=1.5, ram_allocation_ratio=1.1, reserved_memory_mb=500, reserved_cpus=1
    ).policy
    room = {"vcpus": 10, "memory_mb": MEMORY_ROOM, "disk_mb": 100 * 1024}
    total = {"vcpus": 8, "memory_mb": 16384, "disk_mb": 100 * 1024}
    dedicated = frozenset()

    asked = Bundle("asked")

    def __init__(self):
        super().__init__()
        self.clock = hosts.ManualClock()
        self.world = FakeHypervisor(hosts.TOPOLOGY)
        self.store = FailingStore(MemoryStore())
        self.make = lambda: ResourceTracker(self.store, self.clock, enroll(self.store, self.policy))
        self.tracker = self.make()
        self.audit_now()
        self.book = {}  # claim uuid -> {owner, kind, state, vcpus, memory_mb, disk_mb}
        self.ended = set()
        self.lapses = {}  # claim uuid -> when the lease ends
        self.foreign = {}  # domain uuid -> (vcpus, memory_mb) that the last audit counted

    def audit_now(self):
        return Auditor(self.tracker, self.world, self.clock).run("test")

    # -- the book's own arithmetic --

    def owner_use(self, owner):
        mine = [c for c in self.book.values() if c["owner"] == owner]
        held = self.foreign.get(owner, (0, 0))
        return {
            "vcpus": max(sum(c["vcpus"] for c in mine), held[0]),
            "memory_mb": max(sum(c["memory_mb"] for c in mine), held[1]),
            "disk_mb": sum(c["disk_mb"] for c in mine),
        }

    def use(self, without=None):
        owners = {c["owner"] for c in self.book.values()} | set(self.foreign)
        uses = [self.owner_use(o) for o in owners if o != without]
        return {k: sum(u[k] for u in uses) for k in self.room}

    def would_fit(self, owner, quantities):
        others, held = self.use(without=owner), self.foreign.get(owner, (0, 0))
        needed = {
            "vcpus": max(quantities["vcpus"], held[0]),
            "memory_mb": max(quantities["memory_mb"], held[1]),
            "disk_mb": quantities["disk_mb"],
        }
        return all(
            needed[k] <= self.total[k] and (needed[k] == 0 or others[k] + needed[k] <= self.room[k])
            for k in self.room
        )

    def free_pins(self, owner):
        taken = (claim["pins"] for claim in self.book.values() if claim["owner"] != owner)
        return self.dedicated.difference(*taken)

    def pins_would_fit(self, owner, number):
        """A guest of one cell needs them all in one of the host's."""
        free = self.free_pins(owner)
        return any(len(free & cell.cpus) >= number for cell in hosts.TOPOLOGY.cells)

    # -- calls --

    @rule(
        target=asked,
        owner=st.sampled_from(OWNERS),
        vcpus=st.integers(1, 6),
        memory_mb=st.sampled_from([100, 4000, 9000]),
        root_gb=st.sampled_from([0, 30]),
        pinned=st.booleans(),
        active=st.booleans(),
    )
    def claim(self, owner, vcpus, memory_mb, root_gb, pinned, active):
        build = hosts.request(vcpus, memory_mb, root_gb, owner=owner)
        if pinned and self.dedicated:
            build = hosts.request(vcpus, 100, owner=owner, extra_specs=hosts.PINNED)
        uuid = hosts.uid()
        self.try_claim(build, uuid, active)
        return build, uuid

    @rule(again=asked)
    def claim_again(self, again):
        self.try_claim(*again)

    @rule(
        target=asked,
        owner=st.sampled_from(OWNERS),
        cpus=st.sets(st.sampled_from(sorted(range(8))), max_size=3),
        memory_mb=st.sampled_from([100, 4000, 9000]),
        moved=st.booleans(),
    )
    def adopt(self, owner, cpus, memory_mb, moved):
        """State what an instance has, whatever the host has left, alone or for a move."""
        pins, uuid = frozenset(cpus) & self.dedicated, hosts.uid()
        memory_mb = 100 if pins else memory_mb
        facts = MigrationFacts(uuid=hosts.uid(), migration_type="resize") if moved else None
        asked = stated(owner, cpus=sorted(pins), memory_mb=memory_mb, migration=facts)
        live = [c for c in self.book.values() if c["owner"] == owner]
        blocked = len(live) > 1 or (not moved and any(c["kind"] == "build" for c in live))
        taken = sorted(pins - self.free_pins(owner))
        try:
            made = self.tracker.change(adopt_claim, hosts.call("adopt", operation_id=uuid), asked)
        except errors.UnitConflict as error:
            assert not blocked
            conflicts = error.kwargs["conflicts"]
            assert [each["name"] for each in conflicts] == [str(cpu) for cpu in taken]
            assert all(each["owner_id"] != owner for each in conflicts)
        except errors.ClaimConflict:
            assert blocked
        else:
            assert not blocked and not taken
            assert pinned_to(made) == pins
            quantities = {"vcpus": 0 if pins else 1, "memory_mb": memory_mb, "disk_mb": 0}
            self.enter(uuid, owner, "active", pins, quantities, "resize" if moved else "build")
        return hosts.request(1, 100, owner=owner), uuid

    def try_claim(self, build, uuid, active=False):
        owner, flavor = build.instance.uuid, build.instance.flavor
        pinned = bool(flavor.extra_specs)
        quantities = {
            "vcpus": 0 if pinned else flavor.vcpus,
            "memory_mb": flavor.memory_mb,
            "disk_mb": flavor.root_gb * 1024,
        }
        fits = self.would_fit(owner, quantities) and (
            not pinned or self.pins_would_fit(owner, flavor.vcpus)
        )
        live = [u for u, c in self.book.items() if c["owner"] == owner]
        try:
            made = self.tracker.create(
                instance_claim, hosts.call(operation_id=uuid), build, active=active
            )
        except errors.ClaimExpired:
            assert uuid in self.ended
        except errors.ClaimConflict:
            assert live and uuid not in self.book
        except errors.ComputeResourcesUnavailable:
            assert not live and uuid not in self.ended and not fits
        else:
            assert made.uuid == uuid and uuid not in self.ended
            if uuid not in self.book:
                assert not live and fits
                pins = pinned_to(made)
                assert len(pins) == (flavor.vcpus if pinned else 0)
                assert pins <= self.free_pins(owner), "given out twice"
                self.enter(uuid, owner, "active" if active else "building", pins, quantities)

    def enter(self, uuid, owner, state, pins, quantities, kind="build"):
        self.book[uuid] = {"owner": owner, "kind": kind, "state": state, "pins": pins, **quantities}
        if state == "building":
            self.lapses[uuid] = self.clock.monotonic() + 300

    @rule(claim=asked)
    def activate(self, claim):
        _, uuid = claim
        if self.succeeds(activate_claim, uuid):
            self.book[uuid]["state"] = "active"
            self.lapses.pop(uuid, None)

    @rule(claim=asked)
    def renew(self, claim):
        _, uuid = claim
        if self.succeeds(renew_claim, uuid) and uuid in self.lapses:
            self.lapses[uuid] = self.clock.monotonic() + 300

    def succeeds(self, verb, uuid):
        """Change a claim; return whether it was live. If it was not, the right error says so."""
        try:
            self.tracker.change(verb, hosts.call(verb.__name__), uuid)
        except errors.ClaimNotFound:
            assert uuid not in self.book and uuid not in self.ended
        except errors.ClaimExpired:
            assert uuid in self.ended
        else:
            return True
        return False

    @rule(claim=asked, verb=st.sampled_from(["abort_instance_claim", "release_claim"]))
    def end(self, claim, verb):
        _, uuid = claim
        self.tracker.execute(getattr(claims, verb), hosts.call(verb), uuid)
        self.forget(uuid)

    @rule(claim=asked, every=st.booleans())
    def release_by_owner(self, claim, every):
        build, uuid = claim
        owner, asked = build.instance.uuid, hosts.call("release_claims")
        self.tracker.execute(release_claims, asked, owner, None if every else [uuid])
        mine = [u for u, c in self.book.items() if c["owner"] == owner]
        for each in mine if every else [uuid]:
            self.forget(each)

    @rule(owner=st.sampled_from(OWNERS), vm_state=st.sampled_from(["active", "deleted"]))
    def update(self, owner, vm_state):
        news = InstanceUpdate(uuid=owner, vm_state=vm_state)
        self.tracker.execute(update_usage, hosts.call("update_usage"), news)
        if vm_state == "deleted":
            for uuid in [u for u, c in self.book.items() if c["owner"] == owner]:
                self.forget(uuid)

    def forget(self, uuid):
        self.book.pop(uuid, None)
        self.lapses.pop(uuid, None)
        self.ended.add(uuid)

    # -- the world --

    @rule(owner=st.sampled_from(OWNERS), vcpus=st.integers(1, 6), running=st.booleans())
    def domain_appears(self, owner, vcpus, running):
        put = self.world.start_domain if running else self.world.define
        put(owner, vcpus, 100)

    @rule(owner=st.sampled_from(OWNERS))
    def domain_goes(self, owner):
        if owner in self.world.domains:
            self.world.destroy(owner)

    @rule(seconds=st.sampled_from([1, 100, 301]))
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @rule()
    def audit(self):
        assert self.audit_now().skipped == 0
        now = self.clock.monotonic()
        for uuid, claim in list(self.book.items()):
            if claim["state"] != "building":
                continue
            if claim["owner"] in self.world.domains:
                claim["state"] = "active"
                self.lapses.pop(uuid, None)
            elif self.lapses[uuid] <= now:
                self.forget(uuid)
        self.foreign = {
            uuid: (d.vcpus, d.memory_mb)
            for uuid, d in self.world.domains.items()
            if d.active
            and not any(
                c["owner"] == uuid
                and not c["pins"]  # these domains are bound to no CPU
                and (c["vcpus"], c["memory_mb"]) == (d.vcpus, d.memory_mb)
                for c in self.book.values()
            )
        }
        for uuid, claim in self.book.items():
            missing = claim["state"] == "active" and claim["owner"] not in self.world.domains
            assert bool(self.tracker.snapshot().claims[uuid].suspect) == missing

    @rule()
    def restart(self):
        self.tracker = self.make()
        self.lapses = dict.fromkeys(self.lapses, self.clock.monotonic() + 300)

    @rule(landed=st.booleans(), owner=st.sampled_from(OWNERS), retry=st.booleans())
    def connection_is_lost_in_a_commit(self, landed, owner, retry):
        build, uuid = hosts.request(1, 100, owner=owner), hosts.uid()
        self.store.fail(errors.CommitUnknown, after=landed)
        live = any(c["owner"] == owner for c in self.book.values())
        quantities = {"vcpus": 1, "memory_mb": 100, "disk_mb": 0}
        if live or not self.would_fit(owner, quantities):
            self.store.heal()
            return
        self.lapses = dict.fromkeys(self.lapses, self.clock.monotonic() + 300)
        try:
            self.tracker.create(instance_claim, hosts.call(operation_id=uuid), build)
        except errors.StoreUnavailable:
            assert not landed
            if not retry:
                return
            self.tracker.create(instance_claim, hosts.call(operation_id=uuid), build)
        self.enter(uuid, owner, "building", frozenset(), quantities)

    # -- what always holds --

    @invariant()
    def the_book_agrees(self):
        state = self.tracker.snapshot()
        state.check()
        listed = {
            uuid: {
                "owner": claim.owner_id,
                "pins": pinned_to(claim),
                **{name: getattr(claim, name) for name in ("kind", "state", *self.room)},
            }
            for uuid, claim in state.claims.items()
        }
        assert listed == self.book
        assert {name: getattr(state.usage, name) for name in self.room} == self.use()

    @invariant()
    def kept_views_equal_views_made_anew(self):
        check_views(self.tracker.snapshot())

    @invariant()
    def a_restart_would_find_the_same(self):
        state, stored = self.tracker.snapshot(), self.store.load(self.tracker.snapshot().node.uuid)
        assert {c.uuid: c for c in stored.claims} == dict(state.claims)
        assert {h.domain_uuid: h for h in stored.domain_usages} == dict(state.domain_usages)
        assert stored.revision == state.revision


class PinningMachine(ClaimsMachine):
    """The same with CPUs for pinning: two shared CPUs, six dedicated ones in two cells."""

    policy = hosts.host(
        cpu_allocation_ratio=8, ram_allocation_ratio=1.1, reserved_memory_mb=500, numa=hosts.PINNING
    ).policy
    room = {"vcpus": 16, "memory_mb": MEMORY_ROOM, "disk_mb": 100 * 1024}
    total = {"vcpus": 2, "memory_mb": 16384, "disk_mb": 100 * 1024}
    dedicated = hosts.DEDICATED


def pinned_to(claim):
    """The host CPUs that a claim has to itself."""
    return claim.numa_topology.taken if claim.numa_topology else frozenset()


ClaimsMachine.TestCase.settings = settings(stateful_step_count=40)
TestClaims = ClaimsMachine.TestCase
PinningMachine.TestCase.settings = settings(stateful_step_count=40)
TestPinnedClaims = PinningMachine.TestCase
