"""A conductor that does anything: it builds, moves, confirms, reverts, gives up and deletes guests
on three hosts, loses answers, and says again what it has said before."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rtagent.errors import (
    ClaimExpired,
    CommitUnknown,
    ComputeResourcesUnavailable,
    IllegalTransition,
    RequestError,
    StoreUnavailable,
)
from rtagent.model.claim import Claim
from rtagent.model.flavor import Flavor
from rtagent.model.instance import Instance, InstanceUpdate
from rtagent.model.migration import MigrationFacts
from rtagent.model.move import MoveRequest
from rtagent.model.request import BuildRequest
from rtagent.tracker import ResourceTracker
from tests.builders import call, uid
from tests.property.fleet import FLAVORS, Fleet, entered

LEASE = 300


@dataclass
class Move:
    """One that is under way: from where, to where, and how far."""

    told: MigrationFacts
    source: int
    dest: int
    claim: str
    out: bool = False
    arrived: bool = False

    @property
    def kind(self) -> str:
        return self.told.migration_type


@dataclass
class Guest:
    """:ivar claim: the one that it runs by, where it is; None: it is nowhere.
    :ivar lost: claims on hosts that have yet to be told that it was evacuated from there.
    """

    uuid: str
    flavor: Flavor
    at: int = 0
    claim: str | None = None
    running: bool = False
    move: Move | None = None
    lost: tuple[tuple[int, str, MigrationFacts], ...] = ()


class Conductor:
    """Each `step` is one thing done, on which the book is brought up to date and compared."""

    def __init__(self, rng: random.Random, *, shared: bool, reuse: bool) -> None:
        self.rng, self.shared = rng, shared
        self.fleet = Fleet(shared=shared, reuse=reuse)
        self.book, self.clock = self.fleet.book, self.fleet.clock
        self.guests = [Guest(uid(), rng.choice(FLAVORS)) for _ in range(3)]
        self.lapses: dict[str, float] = {}
        self.said: list[tuple[Any, ...]] = []
        self.sources: dict[str, int] = {}
        self.trace: list[str] = []
        self.done = 0

    def step(self) -> None:
        self.clock.advance(1)
        guest = self.rng.choice(self.guests)
        choices: list[Callable[[Guest], None]] = [self._repeat, self._world]
        choices += 4 * [self._next]
        self.rng.choice(choices)(guest)
        self.fleet.check(*range(3))
        for each in self.guests:
            self._has_its_claim(each)

    def _has_its_claim(self, guest: Guest) -> None:
        """Nothing but its own conductor's word takes a running guest's claim."""
        if guest.running and guest.claim is not None:
            held = self.book.held[guest.claim]
            assert held.host == guest.at
            assert held.state in ("active", "outgoing")

    # -- one call -------------------------------------------------------------------------------

    def _ask(self, host: int, verb: str, *arguments: Any, operation: str | None = None) -> Any:
        """The answer, or the error that stays when it is asked again; an answer may be lost."""
        operation = operation or uid()
        self.trace.append(f"{verb} at {host} {operation[-4:]}")
        store, lost = self.fleet.stores[host], self.rng.random() < 0.15
        reloads = store.calls["reload"]
        if lost:
            store.fail(CommitUnknown, after=self.rng.random() < 0.5)
        try:
            return self._heard(host, verb, arguments, operation)
        except StoreUnavailable:
            return self._heard(host, verb, arguments, operation)
        finally:
            store.heal()
            if store.calls["reload"] > reloads:
                self._leases_begin(host)

    def _heard(self, *said: Any) -> Any:
        """What was answered may be said again; a refusal is not kept, and decided afresh."""
        answer = self._told(*said)
        self.said.append(said)
        return answer

    def _told(self, host: int, verb: str, arguments: tuple[Any, ...], operation: str) -> Any:
        tracker: ResourceTracker = self.fleet.trackers[host]
        more = (self.fleet.auditors[host].domains,) if verb == "drop_move_claim_at_source" else ()
        return getattr(tracker, verb)(*arguments, call(verb, operation), *more)

    def _enter(self, claim: Claim, host: int) -> None:
        self.book.held[claim.uuid] = entered(claim, host)
        self.lapses.pop(claim.uuid, None)
        if claim.state in ("building", "incoming"):
            self.lapses[claim.uuid] = self.clock.monotonic() + LEASE

    def _strike(self, claim: str) -> None:
        self.book.held.pop(claim, None)
        self.lapses.pop(claim, None)

    def _leases_begin(self, host: int) -> None:
        for claim in self.lapses:
            if self.book.held[claim].host == host:
                self.lapses[claim] = self.clock.monotonic() + LEASE

    # -- what comes next ------------------------------------------------------------------------

    def _next(self, guest: Guest) -> None:
        if guest.claim is None:
            self._build(guest)
        elif not guest.running:
            self._start(guest)
        elif guest.move is not None:
            self._go_on(guest, guest.move)
        else:
            self.rng.choice(
                [
                    *(self._resize, self._resize, self._live, self._live),
                    *(self._evacuate, self._evacuate, self._tell, self._delete),
                ]
            )(guest)

    def _build(self, guest: Guest) -> None:
        guest.flavor, host = self.rng.choice(FLAVORS), self.rng.randrange(3)
        instance = Instance(uuid=guest.uuid, flavor=guest.flavor)
        request = BuildRequest(claim_uuid=uid(), instance=instance)
        try:
            claim = self._ask(host, "instance_claim", request, operation=request.claim_uuid)
        except (ComputeResourcesUnavailable, RequestError):
            return
        self._enter(claim, host)
        guest.at, guest.claim = host, claim.uuid

    def _start(self, guest: Guest) -> None:
        assert guest.claim is not None
        try:
            claim = self._ask(guest.at, "activate_claim", guest.claim)
        except ClaimExpired:
            assert guest.claim not in self.book.held
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
        """Gladly where it was lost, and nobody knows yet."""
        lost = [host for host, _, _ in guest.lost if host != guest.at]
        return self.rng.choice(2 * lost + [n for n in range(3) if n != guest.at])

    def _begin(self, guest: Guest, kind: Any, dest: int, flavor: Flavor) -> None:
        told = MigrationFacts(
            uuid=uid(),
            migration_type=kind,
            source_compute=f"h{guest.at}",
            dest_compute=f"h{dest}",
        )
        self.sources[told.uuid] = guest.at
        build = BuildRequest(claim_uuid=uid(), instance=Instance(uuid=guest.uuid, flavor=flavor))
        request = MoveRequest(build=build, kind=kind, old_flavor=guest.flavor, migration=told)
        try:
            claim = self._ask(dest, "move_claim", request, operation=build.claim_uuid)
        except (ComputeResourcesUnavailable, RequestError):
            return
        assert claim.state == "incoming"
        self._enter(claim, dest)
        guest.move = Move(told, guest.at, dest, claim.uuid)

    def _go_on(self, guest: Guest, move: Move) -> None:
        steps: list[Callable[[Guest, Move], None]] = [self._give_up, lambda g, _: self._delete(g)]
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
            claim = self._ask(move.source, "start_move_out", guest.uuid, move.told)
        except IllegalTransition:  # on one host, what it would come to has lapsed
            assert move.source == move.dest and move.claim not in self.book.held
            self._give_up(guest, move)
            return
        assert (claim.uuid, claim.state) == (guest.claim, "outgoing")
        self._enter(claim, move.source)
        move.out = True

    def _renew(self, guest: Guest, move: Move) -> None:
        try:
            self._enter(self._ask(move.dest, "renew_claim", move.claim), move.dest)
        except ClaimExpired:
            assert move.claim not in self.book.held

    def _arrive(self, guest: Guest, move: Move) -> None:
        verb = "finish_evacuation" if move.kind == "evacuation" else "finish_move"
        try:
            claim = self._ask(move.dest, verb, guest.uuid, move.told)
        except ClaimExpired:
            assert move.claim not in self.book.held
            self._give_up(guest, move)
            return
        assert claim.uuid == move.claim
        self._enter(claim, move.dest)
        move.arrived = True
        if move.kind == "evacuation":
            assert guest.claim is not None
            guest.lost = (*guest.lost, (move.source, guest.claim, move.told))
            guest.at, guest.claim, guest.move = move.dest, move.claim, None
            guest.flavor = self.book.held[move.claim].flavor

    def _confirm(self, guest: Guest, move: Move) -> None:
        self._ask(move.source, "drop_move_claim_at_source", guest.uuid, move.told)
        assert guest.claim is not None
        self._strike(guest.claim)
        guest.at, guest.claim, guest.move = move.dest, move.claim, None
        guest.flavor = self.book.held[move.claim].flavor
        self.done += 1

    def _revert(self, guest: Guest, move: Move) -> None:
        def back() -> None:
            claim = self._ask(move.source, "finish_revert", guest.uuid, move.told)
            assert claim.uuid == guest.claim
            self._enter(claim, move.source)

        def drop() -> None:
            self._ask(move.dest, "drop_move_claim_at_dest", guest.uuid, move.told)
            self._strike(move.claim)

        self._both(back, drop)
        guest.move = None

    def _give_up(self, guest: Guest, move: Move) -> None:
        """Both sides are told; a resize on one host has one that is both."""

        def source() -> None:
            self._ask(move.source, "drop_move_claim", guest.uuid, move.told)
            assert guest.claim is not None
            held = self.book.held[guest.claim]
            self.book.held[guest.claim] = replace(held, state="active")
            if move.source == move.dest:
                self._strike(move.claim)

        def dest() -> None:
            self._ask(move.dest, "drop_move_claim", guest.uuid, move.told)
            self._strike(move.claim)
            if move.source == move.dest:
                source()

        self._both(source, dest)
        guest.move = None

    def _both(self, *steps: Callable[[], None]) -> None:
        for step in self.rng.sample(steps, len(steps)):
            step()
            self.fleet.check(*range(3))

    def _tell(self, guest: Guest) -> None:
        """A host that was lost is back."""
        if guest.lost:
            host, claim, told = self.rng.choice(guest.lost)
            self._ask(host, "drop_move_claim_at_source", guest.uuid, told)
            guest.lost = tuple(each for each in guest.lost if each[2] != told)
            if claim in self.book.held:  # an audit has not found it out
                self._drop_eldest(guest, host, claim)

    def _drop_eldest(self, guest: Guest, host: int, claim: str) -> None:
        """Of several evacuations from one host, each has one claim dropped, the eldest first."""
        lost = [c for h, c, _ in guest.lost if h == host and c in self.book.held]
        eldest = min((claim, *lost), key=lambda each: self.book.held[each].born)
        self._strike(eldest)
        guest.lost = tuple((h, claim if c == eldest else c, told) for h, c, told in guest.lost)

    def _delete(self, guest: Guest) -> None:
        state = self.rng.choice(["deleted", "shelved_offloaded"])
        news = InstanceUpdate(uuid=guest.uuid, vm_state=state)
        for host in self.rng.sample(range(3), 3):
            self._ask(host, "update_usage", news)
            for uuid, held in self.book.at(host).items():
                if held.owner == guest.uuid:
                    self._strike(uuid)
        if state == "deleted":
            guest.uuid = uid()
        guest.claim, guest.running, guest.move, guest.lost = None, False, None, ()

    # -- what comes again, and the world --------------------------------------------------------

    def _repeat(self, guest: Guest) -> None:
        """Anything that was ever said, under its own operation id or another: nothing changes, but
        leases."""
        if not self.said:
            return
        host, verb, arguments, operation = self.rng.choice(self.said)
        if verb in ("update_usage", "renew_claim"):  # a word of the moment
            return
        again = operation if self.rng.random() < 0.5 else uid()
        self.trace.append(f"again: {verb} at {host} {operation[-4:]} as {again[-4:]}")
        if verb in ("instance_claim", "move_claim") and again != operation:
            return  # another claim, not the same again
        try:
            self._told(host, verb, arguments, again)
        except RequestError:
            return

    def _world(self, guest: Guest) -> None:
        host = self.rng.randrange(3)
        what = self.rng.choice(["audit", "restart", "wait", "wait longer"])
        self.trace.append(f"{what} at {host}")
        if what == "restart":
            self._leases_begin(host)
            self.fleet.restart(host)
            self._audited(host)
        elif what == "audit":
            self.fleet.audit(host)
            self._audited(host)
        else:
            self.clock.advance(50 if what == "wait" else 301)

    def _audited(self, host: int) -> None:
        now = self.clock.monotonic()
        taken = self._taken_over(host) if self.shared else []
        lapsed = [
            uuid
            for uuid, end in self.lapses.items()
            if end <= now and self.book.held[uuid].host == host
        ]
        for uuid in (*lapsed, *taken):
            self._strike(uuid)

    def _taken_over(self, host: int) -> list[str]:
        """What of this host an evacuation has brought up elsewhere, as all can read."""
        return [
            uuid
            for uuid, mine in self.book.at(host).items()
            if mine.state in ("active", "outgoing")
            and any(
                other.owner == mine.owner
                and other.host != host
                and (other.kind, other.state) == ("evacuation", "active")
                and other.born > mine.born
                and self.sources.get(mine.move or "") != other.host
                for other in self.book.held.values()
            )
        ]
