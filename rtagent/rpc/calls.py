"""Calls: makes the calls of a client, bounded in time, and repeated while that may help."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import oslo_messaging
from kombu.exceptions import OperationalError
from oslo_context.context import RequestContext
from retrying import Retrying

from rtagent.errors import AllocationNotWritten, InvalidRequest, RtAgentError
from rtagent.rpc import VERSIONS
from rtagent.rpc.broker.refusals import explained
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.roles import READER
from rtagent.rpc.transport import ERROR_MODULES
from rtagent.rpc.trust.credentials import credentials
from rtagent.rpc.trust.signed_reply import Expected, RemoteFailure, not_verified, verified
from rtagent.rpc.trust.token import arguments_digest

#: Seconds before the first repetition; each wait is twice as long as the one before.
FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
#: Connection attempts after the first: in a cluster of three brokers, each broker is tried.
RECONNECTS = 2
#: Seconds within which a transport must reach its broker, in addition to those for a reply.
BROKER_TIMEOUT = 5.0
#: Seconds for which the call that probes the broker waits for its reply. The reply is ignored.
PROBE_TIMEOUT = 1.0

#: Errors of a call that got no reply. It may have had its effect.
UNANSWERED = (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure)


class BrokerProbe:
    """Bounds the wait for a transport's first connection to its broker. Thread-safe.

    oslo.messaging creates its reply queue at the first call and waits for the broker without limit.
    All later waits are bounded by the client's ``retry``. So the first call of a transport is a
    probe in its own thread, and the callers wait for the probe with a timeout.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Future[None] | None = None
        self._reached = False

    def ensure_reached(self, call: Callable[[], object], seconds: float) -> None:
        """Return when the transport has reached its broker at least once.

        :param call: any call; its reply is ignored. One thread makes it for all waiting callers.
        :raises MessageDeliveryFailure: the broker was not reached in time, or refuses.
        """
        if self._reached:
            return
        with self._lock:
            if self._running is None or self._running.done():
                running = Future[None]()
                threading.Thread(
                    target=self._probe, args=(call, running), name="broker-probe", daemon=True
                ).start()
                self._running = running  # only now: it never ends if it cannot be started
            running = self._running
        if not wait([running], seconds).done:
            raise oslo_messaging.MessageDeliveryFailure(
                f"the message broker was not reached within {seconds:g} s"
            )
        running.result()

    def _probe(self, call: Callable[[], object], running: Future[None]) -> None:
        try:
            call()
        except (RtAgentError, oslo_messaging.MessagingException):
            pass  # the broker was reached
        except Exception as error:  # of a library below oslo.messaging, for a wrong password say
            reason = f"the message broker cannot be used: {explained(error)}"
            running.set_exception(oslo_messaging.MessageDeliveryFailure(reason))
            return
        self._reached = True
        running.set_result(None)


_probes: WeakKeyDictionary[oslo_messaging.RPCTransport, BrokerProbe] = WeakKeyDictionary()
_lock = threading.Lock()


def broker_probe(transport: oslo_messaging.RPCTransport) -> BrokerProbe:
    """The probe of a transport, shared by all clients of the transport."""
    with _lock:
        return _probes.setdefault(transport, BrokerProbe())


def document_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as JSON primitives, without those that are None."""
    given = {name: value for name, value in arguments.items() if value is not None}
    document: dict[str, Any] = msgspec.to_builtins(given)
    return document


class Calls:
    """Thread-safe; cheap to create."""

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        topic: str,
        host: str | None = None,
        *,
        timeout: float | None = None,
        attempts: int = 3,
        verify: bool | None = None,
    ) -> None:
        """:param topic: whose option in ``[upgrade_levels]`` is the highest version that is sent.
        :param host: of the server; None: any server of the topic.
        :param timeout: seconds for each attempt; None: ``rpc_response_timeout``.
        :param attempts: the maximum number of attempts for a call.
        :param verify: whether replies must be signed; None: ``[rpc] verify_replies``.
        :raises ConfigError: a file of a key is wrong.
        """
        self._client = oslo_messaging.get_rpc_client(
            transport,
            oslo_messaging.Target(topic=topic, server=host, version=VERSIONS[topic]),
            timeout=timeout,
            retry=RECONNECTS,
            version_cap=transport.conf.upgrade_levels[topic],
            serializer=ContextSerializer(),
        )
        self._credentials = credentials(transport)
        self._topic, self._host, self._verify = topic, host, verify
        self._timeout = transport.conf.rpc_response_timeout if timeout is None else timeout
        self._probe = broker_probe(transport)
        self._retrying = Retrying(
            stop_max_attempt_number=attempts,
            wait_exponential_multiplier=FIRST_WAIT * 1000 / 2,
            wait_exponential_max=LONGEST_WAIT * 1000,
            retry_on_exception=_may_succeed_later,
        )

    @property
    def signs(self) -> bool:
        """Whether calls are signed."""
        return self._credentials.key is not None

    def call(
        self,
        context: RequestContext,
        method: str,
        document: Mapping[str, Any],
        timeout: float | None = None,
    ) -> Any:
        """Call a method, and repeat the call while a repetition may succeed. Return its reply.

        :param document: JSON primitives.
        """
        client = self._client.prepare(**({} if timeout is None else {"timeout": timeout}))
        seconds = BROKER_TIMEOUT + (self._timeout if timeout is None else timeout)

        def attempt() -> Any:
            self._probe.ensure_reached(self._probe_broker, seconds)
            try:
                return self._attempt(client, context, method, document)
            except OperationalError as error:  # oslo.messaging does not translate it
                raise oslo_messaging.MessageDeliveryFailure(str(error)) from error

        return self._retrying.call(attempt)

    def _attempt(
        self, client: Any, context: RequestContext, method: str, document: Mapping[str, Any]
    ) -> Any:
        """Make one attempt, with a proof of its own, and return the reply."""
        known, verify = self._credentials, self._verify
        verify = known.verify_replies if verify is None else verify
        nonce = secrets.token_hex(16) if verify else ""
        try:
            proved = known.proved(context, self._topic, self._host or "", method, document, nonce)
            digest = arguments_digest(document) if verify else ""
        except ValueError as error:
            raise InvalidRequest.at(method, "$", str(error)) from error
        if not verify:
            try:
                return client.call(proved, method, **document)
            except RtAgentError as error:
                raise _local(error) from None
        expected = Expected(
            topic=self._topic, host=self._host, method=method, digest=digest, nonce=nonce
        )
        try:
            reply = client.call(proved, method, **document)
        except Exception as error:
            if not _is_remote(error):
                raise
            reason = (
                "it is an error that is not signed: the server has no [rpc] signing_key, or another"
                " user of the broker has answered"
            )
            raise not_verified(expected, reason) from None
        try:
            return verified(known, expected, reply)
        except RemoteFailure as failure:
            raise _failed(failure) from None

    def _probe_broker(self) -> None:
        client = self._client.prepare(timeout=PROBE_TIMEOUT)
        # With a role: a server may grant none to a call that says none.
        client.call(RequestContext(roles=[READER], overwrite=False), "ping")


def _may_succeed_later(error: BaseException) -> bool:
    if isinstance(error, AllocationNotWritten):
        return False  # the operation id is used up
    if isinstance(error, RtAgentError):
        return error.retriable
    return isinstance(error, UNANSWERED)


def _is_remote(error: Exception) -> bool:
    """Whether oslo.messaging has made an error from a reply."""
    remote = isinstance(error, oslo_messaging.RemoteError | RtAgentError)
    return remote or type(error).__name__.endswith("_Remote")


def _failed(failure: RemoteFailure) -> RtAgentError | oslo_messaging.RemoteError:
    """The error as the server raised it."""
    if failure.module in ERROR_MODULES:
        type_ = getattr(import_module(failure.module), failure.name, None)
        if isinstance(type_, type) and issubclass(type_, RtAgentError):
            local: RtAgentError = type_(**failure.kwargs)
            return local
    return oslo_messaging.RemoteError(failure.name, failure.message)


def _local(error: RtAgentError) -> RtAgentError:
    """The error as the server raised it.

    oslo.messaging raises a subclass of its own, whose text contains the server's traceback.
    """
    type_ = next(each for each in type(error).__mro__ if each.__module__ in ERROR_MODULES)
    local: RtAgentError = type_(**error.kwargs)
    return local
