"""Recorder: makes calls through the public clients, and records them and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.errors import RequestError, RtAgentError
from rtagent.rpc.calls import UNANSWERED
from rtagent.rpc.client import AgentAPI, SchedulerAPI
from tests.chaos.callers.step import SCHEDULER, Outcome, Step
from tests.chaos.history import History


class Recorder:
    """Calls agents and schedulers. Thread-safe."""

    def __init__(self, transport: oslo_messaging.RPCTransport, history: History) -> None:
        self._transport, self._history = transport, history

    def make(self, process: str, step: Step, *, timeout: float, attempts: int = 1) -> Outcome:
        """Make a call, and return how it ended.

        A refusal is certain only if there was one attempt: an earlier attempt without an answer
        may still arrive.

        :param process: the name of the caller. :param timeout: seconds for each attempt.
        """
        host = "" if step.host == SCHEDULER else step.host
        call = self._history.invoke(process, host, step.method, step.arguments, step.operation_id)
        outcome = self._outcome(process, step, timeout, attempts)
        ending = {"reply": outcome.reply} if outcome.ok else {"error": outcome.error}
        self._history.end(process, call, outcome.state, **ending)
        return outcome

    def _outcome(self, process: str, step: Step, timeout: float, attempts: int) -> Outcome:
        context = RequestContext(user_id=process, roles=["admin"], overwrite=False)
        api = self._api(step.host, timeout, attempts)
        arguments = dict(step.arguments)
        if step.operation_id is not None:
            arguments["operation_id"] = step.operation_id
        try:
            reply = getattr(api, step.method)(context, **arguments)
        except RequestError as error:
            certain = attempts == 1
            return Outcome(state="fail" if certain else "info", error=_document(error))
        except RtAgentError as error:  # it cannot be served now, or not to its end
            return Outcome(state="info", error=_document(error))
        except (*UNANSWERED, OSError) as error:
            return Outcome(state="info", error={"type": type(error).__name__, "text": str(error)})
        return Outcome(state="ok", reply=reply)

    def _api(self, host: str, timeout: float, attempts: int) -> Any:
        if host == SCHEDULER:
            return SchedulerAPI(self._transport, timeout=timeout, attempts=attempts)
        return AgentAPI(self._transport, host, timeout=timeout, attempts=attempts)


def _document(error: RtAgentError) -> Mapping[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(error.kwargs)
    return {**document, "type": type(error).__name__}
