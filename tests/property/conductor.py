"""A conductor that makes random calls: it builds, moves, confirms, reverts, aborts and deletes
guests on three hosts, loses answers, and repeats earlier calls."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from rtagent import errors
from rtagent.model.claim import Claim
from rtagent.model.migration import MigrationFacts, MoveRequest
from rtagent.model.request import BuildRequest, Flavor, Instance, InstanceUpdate
from tests.property.expected_claims import ExpectedClaims, expected_claim
from tests.support.agents import POLICY, SMALL, Agent, agents, pinned, with_devices
from tests.support.hosts import PINNED, call, uid
from tests.support.pci_hosts import GPU_0, GPU_1, gpu
from tests.support.trackers import submit

LEASE = 300
TWO_GPUS = {"pci_passthrough:alias": "gpu:2"}
FLAVORS = (
    SMALL,
    Flavor(vcpus=1, memory_mb=6144, root_gb=20),
    pinned(2),
    Flavor(vcpus=3, memory_mb=1024, extra_specs=PINNED),
    with_devices("gpu:1"),
    Flavor(vcpus=1, memory_mb=256, extra_specs={**TWO_GPUS, **PINNED}),
)


def three_hosts(*, shared: bool, reuse: bool) -> tuple[Agent, ...]:
    """Hosts ``h0`` to ``h2`` with a GPU in each cell."""
    policy = structs.replace(POLICY, same_host_resize_reuse=reuse)
    hosts = agents(3, shared=shared, first=0, policy=policy)
    for host in hosts:
        host.world.plug(gpu(GPU_0, 0), gpu(GPU_1, 1))
        host.audit()
    return hosts


@dataclass
class Move:
    """A move in progress: source, destination, and which of its steps are done."""

    migration: MigrationFacts
    source: int
    dest: int
    claim: str
    out: bool = False
    arrived: bool = False

    @property
    def kind(self) -> str:
        return self.migration.migration_type


@dataclass
class Guest:
    """A guest.

    :ivar claim: the main claim at the host that it is on; None: it is on no host.
    :ivar lost: claims on hosts that do not know yet that it was evacuated from there.
    """

    uuid: str
    flavor: Flavor
    at: int = 0
    claim: str | None = None
    running: bool = False
    move: Move | None = None
    lost: tuple[tuple[int, str, MigrationFacts], ...] = ()


class Conductor:
    """Makes random calls. Each `step` updates the expected claims and compares them."""

    def __init__(self, rng: random.Random, *, shared: bool, reuse: bool) -> None:
        self.rng, self.shared = rng, shared
        self.hosts, self.expected = three_hosts(shared=shared, reuse=reuse), ExpectedClaims(reuse)
        self.clock = self.hosts[0].clock
        self.guests = [Guest(uid(), rng.choice(FLAVORS)) for _ in range(3)]
        self.lapses: dict[str, float] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.sources: dict[str, int] = {}
        self.trace: list[str] = []
        self.done = 0

    def step(self) -> None:
        self.clock.advance(1)
        guest = self.rng.choice(self.guests)
        choices: list[Callable[[Guest], None]] = [self._repeat, self._host_event]
        choices += 4 * [self._next]
        self.rng.choice(choices)(guest)
        self.expected.check(self.hosts)
        for each in self.guests:
            self._has_its_claim(each)

    def _has_its_claim(self, guest: Guest) -> None:
        """Only a call of the conductor ends the claim of a running guest."""
        if guest.running and guest.claim is not None:
            held = self.expected.held[guest.claim]
            assert held.host == guest.at
            assert held.state in ("active", "outgoing")

    # -- calls ----------------------------------------------------------------------------------

    def _call_with_losses(
        self, host: int, verb: str, *arguments: Any, operation: str | None = None
    ) -> Any:
        """Call; at random the answer is lost and the call repeated. Return or raise the outcome."""
        operation = operation or uid()
        self.trace.append(f"{verb} at {host} {operation[-4:]}")
        store, lost = self.hosts[host].store, self.rng.random() < 0.15
        reloads = store.calls["reload"]
        if lost:
            store.fail(errors.CommitUnknown, after=self.rng.random() < 0.5)
        try:
            return self._call_recorded(host, verb, arguments, operation)
        except errors.StoreUnavailable:
            return self._call_recorded(host, verb, arguments, operation)
        finally:
            store.heal()
            if store.calls["reload"] > reloads:
                self._leases_begin(host)

    def _call_recorded(self, *made: Any) -> Any:
        """Call, and record the call for repeats if it was answered, not if it was refused."""
        answer = self._call(*made)
        self.calls.append(made)
        return answer

    def _call(self, host: int, verb: str, arguments: tuple[Any, ...], operation: str) -> Any:
        agent = self.hosts[host]
        more = (agent.auditor.domains,) if verb == "drop_move_claim_at_source" else ()
        return submit(agent.tracker, verb, call(verb, operation), *arguments, *more)

    def _enter(self, claim: Claim, host: int) -> None:
        self.expected.held[claim.uuid] = expected_claim(claim, host)
        self.lapses.pop(claim.uuid, None)
        if claim.state in ("building", "incoming"):
            self.lapses[claim.uuid] = self.clock.monotonic() + LEASE

    def _remove(self, claim: str) -> None:
        self.expected.held.pop(claim, None)
        self.lapses.pop(claim, None)

    def _leases_begin(self, host: int) -> None:
        for claim in self.lapses:
            if self.expected.held[claim].host == host:
                self.lapses[claim] = self.clock.monotonic() + LEASE

    # -- the next step of a guest ---------------------------------------------------------------

    def _next(self, guest: Guest) -> None:
        if guest.claim is None:
            self._build(guest)
        elif not guest.running:
            self._start(guest)
        elif guest.move is not None:
            self._continue(guest, guest.move)
        else:
            self.rng.choice(
                [
                    *(self._resize, self._resize, self._live, self._live),
                    *(self._evacuate, self._evacuate, self._report_evacuation, self._delete),
                ]
            )(guest)

    def _build(self, guest: Guest) -> None:
        guest.flavor, host = self.rng.choice(FLAVORS), self.rng.randrange(3)
        request = BuildRequest(instance=Instance(uuid=guest.uuid, flavor=guest.flavor))
        try:
            claim = self._call_with_losses(host, "instance_claim", request)
        except (errors.ComputeResourcesUnavailable, errors.RequestError):
            return
        self._enter(claim, host)
        guest.at, guest.claim = host, claim.uuid

    def _start(self, guest: Guest) -> None:
        assert guest.claim is not None
        try:
            claim = self._call_with_losses(guest.at, "activate_claim", guest.claim)
        except errors.ClaimExpired:
            assert guest.claim not in self.expected.held
            guest.claim = None
            return
        self._enter(claim, guest.at)
        guest.running = True

    def _resize(self, guest: Guest) -> None:
        flavor = self.rng.choice([*FLAVORS, guest.flavor])
        kind = "migration" if flavor == guest.flavor else "resize"
        self._begin(guest, kind, self.rng.randrange(3), flavor)

    def _live(self, guest: Guest) -> None:
        self._begin(guest, "live-migration", self._elsewhere(guest), guest.flavor)

    def _evacuate(self, guest: Guest) -> None:
        self._begin(guest, "evacuation", self._elsewhere(guest), guest.flavor)

    def _elsewhere(self, guest: Guest) -> int:
        """Choose another host, with preference for one that does not know of an evacuation yet."""
        lost = [host for host, _, _ in guest.lost if host != guest.at]
        return self.rng.choice(2 * lost + [n for n in range(3) if n != guest.at])

    def _begin(self, guest: Guest, kind: Any, dest: int, flavor: Flavor) -> None:
        migration = MigrationFacts(
            uuid=uid(), migration_type=kind, source_compute=f"h{guest.at}", dest_compute=f"h{dest}"
        )
        record = self.rng.choice([migration, migration, kind])  # of the agent, if it names none
        build = BuildRequest(instance=Instance(uuid=guest.uuid, flavor=flavor))
        request = MoveRequest(build=build, old_flavor=guest.flavor, migration=record)
        try:
            claim = self._call_with_losses(dest, "move_claim", request)
        except (errors.ComputeResourcesUnavailable, errors.RequestError):
            return
        assert claim.state == "incoming"
        migration = structs.replace(migration, uuid=claim.migration_uuid)
        self.sources[migration.uuid] = guest.at
        self._enter(claim, dest)
        guest.move = Move(migration, guest.at, dest, claim.uuid)

    def _continue(self, guest: Guest, move: Move) -> None:
        steps: list[Callable[[Guest, Move], None]] = [self._abort, lambda g, _: self._delete(g)]
        if not move.arrived:
            steps += 3 * [self._leave if self._leaves(move) else self._arrive]
            steps.append(self._renew)
        elif move.kind in ("live-migration", "evacuation"):
            steps = [self._confirm]
        else:
            steps = [*3 * [self._confirm], *2 * [self._revert], steps[1]]
        self.rng.choice(steps)(guest, move)

    def _leaves(self, move: Move) -> bool:
        return move.kind in ("resize", "migration") and not move.out

    def _leave(self, guest: Guest, move: Move) -> None:
        try:
            claim = self._call_with_losses(
                move.source, "start_move_out", guest.uuid, move.migration
            )
        except errors.IllegalTransition:  # on one host, the claim of the destination has expired
            assert move.source == move.dest and move.claim not in self.expected.held
            self._abort(guest, move)
            return
        assert (claim.uuid, claim.state) == (guest.claim, "outgoing")
        self._enter(claim, move.source)
        move.out = True

    def _renew(self, guest: Guest, move: Move) -> None:
        try:
            self._enter(self._call_with_losses(move.dest, "renew_claim", move.claim), move.dest)
        except errors.ClaimExpired:
            assert move.claim not in self.expected.held

    def _arrive(self, guest: Guest, move: Move) -> None:
        verb = "finish_evacuation" if move.kind == "evacuation" else "finish_move"
        try:
            claim = self._call_with_losses(move.dest, verb, guest.uuid, move.migration)
        except errors.ClaimExpired:
            assert move.claim not in self.expected.held
            self._abort(guest, move)
            return
        assert claim.uuid == move.claim
        self._enter(claim, move.dest)
        move.arrived = True
        if move.kind == "evacuation":
            assert guest.claim is not None
            guest.lost = (*guest.lost, (move.source, guest.claim, move.migration))
            guest.at, guest.claim, guest.move = move.dest, move.claim, None
            guest.flavor = self.expected.held[move.claim].flavor

    def _confirm(self, guest: Guest, move: Move) -> None:
        self._call_with_losses(move.source, "drop_move_claim_at_source", guest.uuid, move.migration)
        assert guest.claim is not None
        self._remove(guest.claim)
        guest.at, guest.claim, guest.move = move.dest, move.claim, None
        guest.flavor = self.expected.held[move.claim].flavor
        self.done += 1

    def _revert(self, guest: Guest, move: Move) -> None:
        def back() -> None:
            claim = self._call_with_losses(move.source, "finish_revert", guest.uuid, move.migration)
            assert claim.uuid == guest.claim
            self._enter(claim, move.source)

        def drop() -> None:
            self._call_with_losses(move.dest, "drop_move_claim_at_dest", guest.uuid, move.migration)
            self._remove(move.claim)

        self._both(back, drop)
        guest.move = None

    def _abort(self, guest: Guest, move: Move) -> None:
        """Abort the move at both sides; on one host a single call does it."""

        def source() -> None:
            self._call_with_losses(move.source, "drop_move_claim", guest.uuid, move.migration)
            assert guest.claim is not None
            held = self.expected.held[guest.claim]
            self.expected.held[guest.claim] = replace(held, state="active")
            if move.source == move.dest:
                self._remove(move.claim)

        def dest() -> None:
            self._call_with_losses(move.dest, "drop_move_claim", guest.uuid, move.migration)
            self._remove(move.claim)
            if move.source == move.dest:
                source()

        self._both(source, dest)
        guest.move = None

    def _both(self, *steps: Callable[[], None]) -> None:
        for step in self.rng.sample(steps, len(steps)):
            step()
            self.expected.check(self.hosts)

    def _report_evacuation(self, guest: Guest) -> None:
        """Report an evacuation to a host that has returned."""
        if guest.lost:
            host, claim, migration = self.rng.choice(guest.lost)
            self._call_with_losses(host, "drop_move_claim_at_source", guest.uuid, migration)
            guest.lost = tuple(each for each in guest.lost if each[2] != migration)
            if claim in self.expected.held:  # no audit has found the evacuation
                self._drop_oldest(guest, host, claim)

    def _drop_oldest(self, guest: Guest, host: int, claim: str) -> None:
        """Drop the oldest claim; each of several evacuations from one host drops one."""
        lost = [c for h, c, _ in guest.lost if h == host and c in self.expected.held]
        oldest = min((claim, *lost), key=lambda each: self.expected.held[each].born)
        self._remove(oldest)
        guest.lost = tuple(
            (h, claim if c == oldest else c, migration) for h, c, migration in guest.lost
        )

    def _delete(self, guest: Guest) -> None:
        state = self.rng.choice(["deleted", "shelved_offloaded"])
        update = InstanceUpdate(uuid=guest.uuid, vm_state=state)
        for host in self.rng.sample(range(3), 3):
            self._call_with_losses(host, "update_usage", update)
            for uuid, held in self.expected.at(host).items():
                if held.owner == guest.uuid:
                    self._remove(uuid)
        if state == "deleted":
            guest.uuid = uid()
        guest.claim, guest.running, guest.move, guest.lost = None, False, None, ()

    # -- repeats, audits, restarts and time -----------------------------------------------------

    def _repeat(self, guest: Guest) -> None:
        """Repeat an earlier call, with the same operation id or another: it changes leases only."""
        if not self.calls:
            return
        host, verb, arguments, operation = self.rng.choice(self.calls)
        if verb in ("update_usage", "renew_claim"):  # these depend on the current state
            return
        again = operation if self.rng.random() < 0.5 else uid()
        self.trace.append(f"again: {verb} at {host} {operation[-4:]} as {again[-4:]}")
        if verb in ("instance_claim", "move_claim") and again != operation:
            return  # this would be another claim
        try:
            self._call(host, verb, arguments, again)
        except errors.RequestError:
            return

    def _host_event(self, guest: Guest) -> None:
        host = self.rng.randrange(3)
        what = self.rng.choice(["audit", "restart", "wait", "wait longer"])
        self.trace.append(f"{what} at {host}")
        if what == "restart":
            self._leases_begin(host)
            self.hosts[host].start()
            self._audited(host)
        elif what == "audit":
            self.hosts[host].audit()
            self._audited(host)
        else:
            self.clock.advance(50 if what == "wait" else 301)

    def _audited(self, host: int) -> None:
        now = self.clock.monotonic()
        taken = self._taken_over(host) if self.shared else []
        lapsed = [
            uuid
            for uuid, end in self.lapses.items()
            if end <= now and self.expected.held[uuid].host == host
        ]
        for uuid in (*lapsed, *taken):
            self._remove(uuid)

    def _taken_over(self, host: int) -> list[str]:
        """Return claims of this host whose guests an evacuation has started on another host."""
        return [
            uuid
            for uuid, mine in self.expected.at(host).items()
            if mine.state in ("active", "outgoing")
            and any(
                other.owner == mine.owner
                and other.host != host
                and (other.kind, other.state) == ("evacuation", "active")
                and other.born > mine.born
                and self.sources.get(mine.move or "") != other.host
                for other in self.expected.held.values()
            )
        ]
