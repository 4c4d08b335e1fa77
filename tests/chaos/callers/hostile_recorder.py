"""Hostile recorder: makes calls with any proof, past the client that would sign them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.rpc.context import ContextSerializer, OutgoingContext, Proof
from rtagent.rpc.methods import AGENT_API
from rtagent.rpc.topics import AGENT
from tests.chaos.callers.recorder import Recorder
from tests.chaos.callers.step import Outcome, Step

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
