"""SchedulerAPI: the Python client of the schedulers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.rpc.calls import Calls
from rtagent.rpc.method import Method, add_methods
from rtagent.rpc.scheduler_methods import METHODS
from rtagent.rpc.topics import SCHEDULER

#: The version that added a method, by its name. A method that is not here is in version 1.0.
SINCE: Mapping[str, str] = dict.fromkeys(("get_service", "force_down_service"), "1.1")


class SchedulerAPI:
    """The schedulers: any one of them serves a call. Thread-safe; cheap to create.

    It has a method for each one of `rtagent.rpc.scheduler_methods.METHODS` that is not a cast,
    made from that table::

        api.select_destinations(context, request_spec, instance_uuids, alternates=True)

    Arguments, replies, errors and repetitions are as for `rtagent.rpc.client.AgentAPI`; there are
    also the errors of `rtagent.scheduler.errors`. A repeated `select_destinations` selects again;
    what was selected for a reply that was lost is forgotten after ``[scheduler] assume_timeout``.
    With a key, a call that needs the role ``operator`` is sent to one scheduler: the one that
    answers a ping.

    API version history:

    * 1.0 - Initial version.
    * 1.1 - The methods `get_service` and `force_down_service`.
    * 1.2 - ``time`` in the reply of `ping`; the errors ``SignatureInvalid``, ``NotAuthorized`` and
      ``TooManyRequests`` of every method. Calls may be signed, and replies on request.
    * 1.3 - ``consumer_generation`` in the request of `select_destinations`.
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
        self._calls = self._calls_to(host)

    if TYPE_CHECKING:  # the methods of the table

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def _call(
        self, method: Method, context: RequestContext, timeout: float | None, arguments: Any
    ) -> Any:
        given = {name: value for name, value in arguments.items() if value is not None}
        document = msgspec.to_builtins(given)
        version = SINCE.get(method.name)
        calls = self._calls_to_one(context) if method.for_one_server else self._calls
        return calls.call(context, method.name, document, version=version, timeout=timeout)

    def _calls_to_one(self, context: RequestContext) -> Calls:
        """Return what calls one scheduler.

        A signature for any scheduler could be copied to one that has not served the call; after a
        later change, the copy would undo that.
        """
        if self._host is not None or not self._calls.signs:
            return self._calls
        return self._calls_to(self._calls.call(context, "ping", {})["host"])

    def _calls_to(self, host: str | None) -> Calls:
        return Calls(
            self._transport,
            oslo_messaging.Target(topic=SCHEDULER, server=host, version="1.0"),
            version_cap=self._transport.conf.upgrade_levels.scheduler,
            **self._options,
        )


add_methods(SchedulerAPI, (method for method in METHODS.values() if not method.cast))
