"""Adversary: a caller whose every call must be refused.

It sends calls without a signature, calls with the signature of a key that is not in the keys file,
and calls that were signed so long ago that they may be replays. Only for a world with keys.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.rpc.context import ContextSerializer, OutgoingContext, Proof
from rtagent.rpc.methods import TOPIC, VERSION
from rtagent.rpc.trust.credentials import credentials
from rtagent.rpc.trust.private_key import PrivateKey
from rtagent.rpc.trust.signature import CallText, arguments_digest, sign
from tests.chaos.callers import flavors
from tests.chaos.callers.recorder import Recorder
from tests.chaos.callers.step import Life, Outcome, Step
from tests.chaos.world.keys import CALLERS, WINDOW

#: The name of its process: the checker knows adversaries by it.
NAME = "adversary-1"
#: How much older than the window a replayed signature is at least.
OLDER = 1.5
#: The most calls that are kept for a replay.
KEPT = 50
NO_PROOF = Proof()


@dataclass(frozen=True, kw_only=True)
class HostileStep(Step):
    """A call with the proof that is sent with it."""

    proof: Proof = NO_PROOF


class HostileRecorder(Recorder):
    """Makes hostile calls, past the client that would sign them. Of one thread."""

    def _outcome(self, process: str, step: Step, timeout: float, attempts: int) -> Outcome:
        self._proof = step.proof if isinstance(step, HostileStep) else NO_PROOF
        return super()._outcome(process, step, timeout, attempts)

    def _api(self, host: str, timeout: float, attempts: int) -> Any:
        target = oslo_messaging.Target(topic=TOPIC, server=host, version=VERSION)
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


class AdversaryLife:
    """Hostile calls without an end."""

    def __init__(
        self, rng: random.Random, hosts: Sequence[str], transport: oslo_messaging.RPCTransport
    ) -> None:
        """:param transport: of a caller with a key: its calls are those that are replayed."""
        self._rng, self._hosts = rng, hosts
        self._credentials = credentials(transport)
        self._forger = PrivateKey.generate(CALLERS)
        self._signed: list[tuple[float, HostileStep]] = []

    def run(self) -> Life:
        """Yield the calls."""
        while True:
            self._sign()
            signed_at, oldest = self._signed[0]
            if time.monotonic() - signed_at > OLDER * WINDOW:
                del self._signed[0]
                yield oldest
            elif self._rng.random() < 0.5:
                yield self._step()
            else:
                step = self._step()
                yield self._with(step, Proof(signature=self._forged(step)))

    def _step(self) -> HostileStep:
        """Return a call without a proof: a read, or a change of what is another's."""
        uuid = flavors.new_uuid(self._rng)
        method, arguments = self._rng.choice(
            (
                ("get_claims_for_host", {}),
                ("instance_claim", {"instance": flavors.instance(self._rng)}),
                ("release_claim", {"claim_uuid": uuid}),
                ("drain_node", {"reason": "none"}),
            )
        )
        changes = method != "get_claims_for_host"
        return HostileStep(
            host=self._rng.choice(self._hosts),
            method=method,
            arguments=arguments,
            operation_id=flavors.new_uuid(self._rng) if changes else None,
        )

    def _sign(self) -> None:
        """Sign a call by the real key, as of now; it is not sent before it is too old."""
        if len(self._signed) < KEPT:
            step = self._step()
            context = RequestContext(user_id=NAME, roles=["admin"], overwrite=False)
            document = _document(step)
            proved = self._credentials.proved(context, TOPIC, step.host, step.method, document)
            self._signed.append((time.monotonic(), self._with(step, proved.proof)))

    def _forged(self, step: Step) -> str:
        """Return a signature in the name of the callers' key, made by another one."""
        document = _document(step)
        text = CallText(
            topic=TOPIC,
            method=step.method,
            server=step.host,
            operation_id=step.operation_id or "",
            digest=arguments_digest(document),
            nonce="",
            key=CALLERS,
            issued_at=time.time_ns() // 1_000_000,
            attempt=flavors.new_uuid(self._rng),
        )
        return sign(self._forger, text)

    @staticmethod
    def _with(step: Step, proof: Proof) -> HostileStep:
        return HostileStep(
            host=step.host,
            method=step.method,
            arguments=step.arguments,
            operation_id=step.operation_id,
            proof=proof,
        )


def _document(step: Step) -> dict[str, Any]:
    """Return the arguments as they are sent."""
    operation = {"operation_id": step.operation_id} if step.operation_id else {}
    return {**step.arguments, **operation}
