"""SchedulerAPI: the Python client of the schedulers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.rpc.calls import Calls, document_of
from rtagent.rpc.method import Method, add_methods
from rtagent.rpc.methods import SCHEDULER_API
from rtagent.rpc.topics import SCHEDULER


class SchedulerAPI:
    """The schedulers: any one of them serves a call. Thread-safe; cheap to create.

    It has a method for each one of `rtagent.rpc.methods.SCHEDULER_API` that is not a cast,
    made from that table::

        api.select_destinations(context, request_spec, instance_uuids, alternates=True)

    Arguments, replies, errors and repetitions are as for `rtagent.rpc.client.AgentAPI`; there are
    also the errors of `rtagent.scheduler.errors`. A repeated `select_destinations` selects again;
    what was selected for a reply that was lost is forgotten after ``[scheduler] assume_timeout``.
    With a key, a call that needs the role ``operator`` is sent to one scheduler: the one that
    answers a ping.

    API version history:

    * 1.3 - That of release 0.2.0, and the first one that is supported.
    """

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        host: str | None = None,
        *,
        timeout: float | None = None,
        attempts: int = 3,
        verify: bool | None = None,
    ) -> None:
        """:param transport: from `rtagent.rpc.transport.get_transport`; its configuration's
            ``[upgrade_levels] scheduler`` is the highest version that is sent.
        :param host: that of one scheduler; None: any scheduler.
        :param timeout: seconds for each attempt; None: ``rpc_response_timeout``.
        :param attempts: the maximum number of attempts for a call.
        :param verify: whether each reply must be signed by the server, or is a `ReplyNotVerified`;
            None: ``[rpc] verify_replies``.
        :raises ConfigError: a file of ``[rpc]`` is wrong.
        """
        self._transport, self._host = transport, host
        self._options: dict[str, Any] = {"timeout": timeout, "attempts": attempts, "verify": verify}
        self._calls = Calls(transport, SCHEDULER, host, **self._options)

    if TYPE_CHECKING:  # the methods of the table

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def _call(
        self, method: Method, context: RequestContext, timeout: float | None, arguments: Any
    ) -> Any:
        calls = self._calls_to_one(context) if method.for_one_server else self._calls
        return calls.call(context, method.name, document_of(arguments), timeout)

    def _calls_to_one(self, context: RequestContext) -> Calls:
        """Return what calls one scheduler.

        A signature for any scheduler could be copied to one that has not served the call; after a
        later change, the copy would undo that.
        """
        if self._host is not None or not self._calls.signs:
            return self._calls
        host = self._calls.call(context, "ping", {})["host"]
        return Calls(self._transport, SCHEDULER, host, **self._options)


add_methods(SchedulerAPI, (method for method in SCHEDULER_API.methods.values() if not method.cast))
