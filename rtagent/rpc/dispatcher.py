"""Dispatcher: calls the method of each message, without a thread or a traceback of its own."""

from __future__ import annotations

from typing import Any

import oslo_messaging

from rtagent.ports import Reporter
from rtagent.rpc.call_monitor import CallMonitor
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.encoded import EncodedReply
from rtagent.rpc.incoming import Incoming
from rtagent.rpc.serving import is_served
from rtagent.rpc.trust.signed_reply import SignedReplies

UNKNOWN = "a call was refused, because this release does not have its method or version"


class OnlyMethods(oslo_messaging.RPCAccessPolicyBase):
    """Allows the methods that an endpoint serves, and no other attribute of it."""

    def is_allowed(self, endpoint: object, method: str) -> bool:
        return is_served(endpoint, method)


class Dispatcher(oslo_messaging.RPCDispatcher):
    """Dispatches to one endpoint."""

    def __init__(
        self,
        endpoint: object,
        monitor: CallMonitor,
        replies: SignedReplies,
        reporter: Reporter,
    ) -> None:
        super().__init__([endpoint], ContextSerializer(), OnlyMethods)
        self._monitor, self._replies = monitor, replies
        self._reporter = reporter.named(__name__)

    def dispatch(self, incoming: Incoming) -> Any:
        """Serve a call and return its reply."""
        return self._replies.serve(incoming, lambda: self._dispatch(incoming))

    def _dispatch(self, incoming: Incoming) -> Any:
        try:
            with self._monitor.watch(incoming, incoming.caller_timeout):
                return self._serve(incoming)
        except (oslo_messaging.NoSuchMethod, oslo_messaging.UnsupportedVersion) as error:
            self._reporter.counted("rpc", type(error).__name__)
            # Without the name: so the log throttle recognises a repetition.
            self._reporter.log("warning", UNKNOWN)
            # The caller gets the error itself; oslo.messaging logs no traceback of it.
            raise oslo_messaging.ExpectedException() from error

    def _serve(self, incoming: Incoming) -> EncodedReply:
        """Call the method.

        oslo.messaging would make a thread for each call, which it starts only for a call monitor.
        """
        message, endpoint = incoming.message, self.endpoints[0]
        name, version = message.get("method"), message.get("version", "1.0")
        if not self._answers(endpoint.target, message.get("namespace"), version):
            raise oslo_messaging.UnsupportedVersion(version, method=name)
        if not is_served(endpoint, name):
            raise oslo_messaging.NoSuchMethod(name)
        context = self.serializer.deserialize_context(incoming.ctxt)
        reply: EncodedReply = getattr(endpoint, name).encoded(context, **message.get("args", {}))
        return reply

    def _answers(self, target: oslo_messaging.Target, namespace: str | None, version: str) -> bool:
        return bool(self._is_namespace(target, namespace) and self._is_compatible(target, version))
