"""Adversaries: callers whose every call must be refused. Only for a world with keys.

The forger sends calls without a signature, and calls with the signature of a key that is not in the
keys file. The replayer sends calls that the callers' key has signed too long ago.

An agent soon refuses whatever a sender signs, if many of its signatures were wrong. So each
adversary must have a reply queue of its own, or the forger would hide that replays are served.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.rpc import AGENT
from rtagent.rpc.context import ContextSerializer, OutgoingContext, Proof
from rtagent.rpc.methods import AGENT_API
from rtagent.rpc.trust.credentials import PrivateKey
from rtagent.rpc.trust.token import CallClaims, arguments_digest
from tests.chaos.callers import flavors
from tests.chaos.callers.recorder import Recorder
from tests.chaos.callers.step import Life, Outcome, Step
from tests.chaos.world.keys import WINDOW

NO_PROOF = Proof()


@dataclass(frozen=True, kw_only=True)
class HostileStep(Step):
    """A call with the proof that is sent with it."""

    proof: Proof = NO_PROOF
    once: bool = True


class HostileRecorder(Recorder):
    """Makes and records hostile calls. Of one thread."""

    def _outcome(self, process: str, step: Step, timeout: float, attempts: int) -> Outcome:
        self._proof = step.proof if isinstance(step, HostileStep) else NO_PROOF
        return super()._outcome(process, step, timeout, attempts)

    def _api(self, host: str, timeout: float, attempts: int) -> Any:
        target = oslo_messaging.Target(topic=AGENT, server=host, version=AGENT_API.version)
        serializer = ContextSerializer()
        client = oslo_messaging.get_rpc_client(
            self._transport, target, timeout=timeout, retry=2, serializer=serializer
        )
        return _Wire(client, self._proof)


class _Wire:
    """Has the methods of an agent, as `AgentAPI`, and sends them with one proof."""

    def __init__(self, client: Any, proof: Proof) -> None:
        self._client, self._proof = client, proof

    def __getattr__(self, method: str) -> Any:
        def call(context: RequestContext, **arguments: Any) -> Any:
            return self._client.call(OutgoingContext(context, self._proof), method, **arguments)

        return call


#: Their processes: the checker knows adversaries by these names.
FORGER, REPLAYER = "adversary-1", "adversary-2"
#: The seconds between the signature of a replayed call and the call: drawn from this range. A clock
#: that is a day behind makes none of these signatures valid.
AGES = (1.5 * WINDOW, 3600.0)


def forgeries(rng: random.Random, hosts: Sequence[str], key: PrivateKey) -> Life:
    """Yield calls without a valid signature, without an end.

    :param key: one that no agent knows, with the name of one that each agent knows.
    """
    while True:
        step = _step(rng, hosts)
        yield step if rng.random() < 0.5 else _signed(rng, step, key, 0.0)


def replays(rng: random.Random, hosts: Sequence[str], key: PrivateKey) -> Life:
    """Yield calls with signatures that are too old, without an end.

    None of them waits to become too old: the first calls of a run are replays already.

    :param key: of the callers.
    """
    while True:
        step, age = _step(rng, hosts), rng.uniform(*AGES)
        yield _signed(rng, step, key, age)


def _step(rng: random.Random, hosts: Sequence[str]) -> HostileStep:
    """Return a call without a proof: a read, or a change of what is another's."""
    method, arguments = rng.choice(
        (
            ("get_claims_for_host", {}),
            ("instance_claim", {"instance": flavors.instance(rng)}),
            ("release_claim", {"claim_uuid": flavors.new_uuid(rng)}),
            ("drain_node", {"reason": "none"}),
        )
    )
    changes = method != "get_claims_for_host"
    return HostileStep(
        host=rng.choice(hosts),
        method=method,
        arguments=arguments,
        operation_id=flavors.new_uuid(rng) if changes else None,
    )


def _signed(rng: random.Random, step: HostileStep, key: PrivateKey, age: float) -> HostileStep:
    """Return the call with a signature. :param age: of the signature, in seconds."""
    claims = CallClaims(
        aud=f"{AGENT}.{step.host}",
        method=step.method,
        digest=arguments_digest(_document(step)),
        nonce="",
        iat=time.time() - age,
        jti=flavors.new_uuid(rng),
    )
    return replace(step, proof=Proof(signature=key.token(claims)))


def _document(step: HostileStep) -> dict[str, Any]:
    """Return the arguments as they are sent."""
    operation = {"operation_id": step.operation_id} if step.operation_id else {}
    return {**step.arguments, **operation}
