"""Random lives of guests on two hosts: the rules that machines have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from rtagent.errors import RtAgentError
from rtagent.model.flavor import Flavor
from rtagent.model.migration import MigrationFacts
from tests.support.agents import LARGE, SMALL, Agent
from tests.support.hosts import uid

Host = TypeVar("Host", bound=Agent)

HOSTS = st.integers(0, 1)
GUESTS = st.sampled_from([uid(n) for n in (701, 702, 703)])
KINDS = st.sampled_from(["resize", "migration", "live-migration", "evacuation"])
VERBS = st.sampled_from(
    [
        "start_move_out",
        "finish_move",
        "finish_evacuation",
        "drop_move_claim_at_source",
        "drop_move_claim_at_dest",
        "finish_revert",
        "drop_move_claim",
    ]
)
#: Chooses one of the flavors of a machine.
CHOICES = st.integers(0, 3)


class Lives(RuleBasedStateMachine, Generic[Host]):
    """Guests run, move and end on two hosts, whose agents are killed.

    :cvar flavors: of the guests. :ivar hosts: made by the machine. :ivar moves: the last move of a
        guest, by guest.
    """

    flavors: Sequence[Flavor] = (SMALL, LARGE)
    hosts: Sequence[Host] = ()

    def __init__(self) -> None:
        super().__init__()
        self.moves = dict[str, MigrationFacts]()

    def attempt(self, action: Callable[[], object]) -> None:
        """Make a call that may be illegal in this state, or be refused."""
        with suppress(RtAgentError):
            action()

    def flavor(self, choice: int) -> Flavor:
        """Return one of the flavors."""
        return self.flavors[choice % len(self.flavors)]

    @rule(host=HOSTS, guest=GUESTS, choice=CHOICES)
    def run_guest(self, host: int, guest: str, choice: int) -> None:
        self.attempt(lambda: self.hosts[host].run(self.flavor(choice), guest))

    @rule(host=HOSTS, guest=GUESTS)
    def release(self, host: int, guest: str) -> None:
        for claim in self.hosts[host].state.claims_of(guest)[:1]:
            self.attempt(lambda claim=claim: self.hosts[host].release(claim))  # type: ignore[misc]

    @rule(host=HOSTS, guest=GUESTS, choice=CHOICES, kind=KINDS)
    def claim_move(self, host: int, guest: str, choice: int, kind: str) -> None:
        move = MigrationFacts(uuid=uid(), migration_type=kind)

        def claim() -> None:
            self.hosts[host].claim_move(move, self.flavor(choice), guest)
            self.moves[guest] = move

        self.attempt(claim)

    @rule(host=HOSTS, guest=GUESTS, verb=VERBS)
    def move(self, host: int, guest: str, verb: str) -> None:
        if guest in self.moves:
            self.attempt(lambda: self.hosts[host].move(verb, self.moves[guest], guest))

    @rule(host=HOSTS)
    def kill(self, host: int) -> None:
        self.hosts[host].start()
