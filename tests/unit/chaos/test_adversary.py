"""Every call of an adversary must be refused, and for the reason that it is made for."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rtagent.ports import NullReporter
from rtagent.rpc.context import CallContext
from rtagent.rpc.errors import SignatureInvalid
from rtagent.rpc.methods import TABLES
from rtagent.rpc.topics import AGENT
from rtagent.rpc.trust.authentication import Authentication
from rtagent.rpc.trust.private_key import PrivateKey
from tests.chaos.callers.adversary import AGES, forgeries, replays
from tests.chaos.callers.hostile_recorder import HostileStep
from tests.chaos.callers.step import Life
from tests.chaos.world.keys import CALLERS, WINDOW, Keys
from tests.support.hosts import ManualClock

HOSTS = ("host-1", "host-2")
#: Enough for each method at each host.
NUMBER = 100


class Agents:
    """Judge the signatures of calls. :ivar clock: of each agent."""

    def __init__(self, directory: Path) -> None:
        self.keys = Keys(directory, HOSTS, [])
        self.clock = ManualClock(start=datetime.now(UTC))

    def refusal(self, step: HostileStep) -> SignatureInvalid | None:
        """Return why an agent that knows no earlier call refuses this one; None: it is served."""
        options = self.keys.files.settings(require_signature=True, signature_window=WINDOW)
        methods = TABLES[AGENT].methods.values()
        served = Authentication(
            AGENT, step.host, lambda: options, self.clock, NullReporter(), methods
        )
        context = CallContext(user_id="adversary", roles=["admin"], overwrite=False)
        context.proof = step.proof
        operation = {"operation_id": step.operation_id} if step.operation_id else {}
        try:
            served(context, step.method, {**step.arguments, **operation})
        except SignatureInvalid as error:
            return error
        return None


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    return Agents(tmp_path)


def calls(life: Callable[..., Life], key: PrivateKey) -> list[HostileStep]:
    """Return the first calls of an adversary."""
    made: list[Any] = list(itertools.islice(life(random.Random(1), HOSTS, key), NUMBER))
    return made


def test_each_replay_is_refused_for_its_age(agents: Agents):
    for call in calls(replays, agents.keys.callers):
        refused = agents.refusal(call)
        assert refused is not None
        assert -AGES[1] - 1 <= refused.kwargs["skew"] <= -AGES[0] + 1 < -WINDOW


def test_each_replay_was_valid_once(agents: Agents):
    now = agents.clock.now()
    for call in calls(replays, agents.keys.callers):
        refused = agents.refusal(call)
        assert refused is not None
        agents.clock.advance(refused.kwargs["skew"])
        assert agents.refusal(call) is None
        agents.clock.advance((now - agents.clock.now()).total_seconds())


@pytest.mark.parametrize("days", [-1, 1])
def test_no_replay_is_valid_while_a_clock_is_a_day_off(agents: Agents, days: int):
    agents.clock.advance(timedelta(days=days).total_seconds())
    assert all(map(agents.refusal, calls(replays, agents.keys.callers)))


def test_half_of_the_forgeries_are_not_signed_and_the_others_have_a_wrong_signature(agents: Agents):
    made = calls(forgeries, PrivateKey.generate(CALLERS))
    reasons = [refused.kwargs["reason"] for call in made if (refused := agents.refusal(call))]
    unsigned = [each for each in reasons if each.startswith("it has none")]
    forged = [each for each in reasons if each.startswith("it is not that of the key callers")]
    assert len(unsigned) + len(forged) == NUMBER
    assert min(len(unsigned), len(forged)) > NUMBER / 4


@pytest.mark.parametrize("life", [forgeries, replays])
def test_calls_are_made_at_every_host_and_not_again(agents: Agents, life: Callable[..., Life]):
    made = calls(life, agents.keys.callers)
    assert {(call.host, call.method) for call in made} == set(
        itertools.product(
            HOSTS, ("get_claims_for_host", "instance_claim", "release_claim", "drain_node")
        )
    )
    assert all(call.once for call in made)
