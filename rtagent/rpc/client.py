"""AgentAPI: the Python client."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
import oslo_messaging
from kombu.exceptions import OperationalError
from oslo_context.context import RequestContext
from retrying import Retrying

from rtagent import errors
from rtagent.errors import RtAgentError
from rtagent.rpc.contact import contact
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.device_calls import DeviceCalls
from rtagent.rpc.methods import TOPIC
from rtagent.rpc.move_calls import MoveCalls

#: Seconds before the first repetition; each wait is twice as long as the one before it.
FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
#: How often an attempt tries again to reach the broker: each node of a cluster of three has a turn.
RECONNECTS = 2
#: Seconds, beyond those for an answer, within which a transport must have reached its broker.
REACH = 5.0
#: Seconds for which the call that tries this waits for its answer, which does not matter.
KNOCK = 1.0

#: Of a call without an answer: whether it had an effect is not known.
UNANSWERED = (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure)

Document = Any  #: JSON primitives, or a value of `rtagent.model`.


class AgentAPI(DeviceCalls, MoveCalls):
    """The agent of one host. Thread-safe; making one costs little.

    Answers are JSON primitives, as the schemas say. Errors are those of `rtagent.errors`, and
    oslo.messaging's own where there is no answer (`UNANSWERED`).

    A call is repeated, with the same operation id, when it or its answer is lost or when the error
    says that it may succeed later. Where every attempt was in vain the outcome may be unknown:
    repeat the call with the same ``operation_id``, or abort it. (An error of a call whose operation
    id was made here has it in a note.)

    Every attempt ends, also without a broker, with oslo.messaging's ``MessageDeliveryFailure``:
    after some seconds where nobody takes connections, and where the broker hangs, after the time
    for an answer and about 20 seconds.

    API version history:

    * 1.0 - Initial version.
    """

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        host: str,
        *,
        timeout: float | None = None,
        attempts: int = 3,
    ) -> None:
        """:param transport: from `rtagent.rpc.transport.get_transport`; its configuration's
            ``[upgrade_levels] rtagent`` is the highest version that is sent.
        :param timeout: seconds for each attempt; None: ``rpc_response_timeout``.
        :param attempts: how often a call is made at most.
        """
        self._client = oslo_messaging.get_rpc_client(
            transport,
            oslo_messaging.Target(topic=TOPIC, server=host, version="1.0"),
            timeout=timeout,
            retry=RECONNECTS,
            version_cap=transport.conf.upgrade_levels.rtagent,
            serializer=ContextSerializer(),
        )
        self._timeout = transport.conf.rpc_response_timeout if timeout is None else timeout
        self._contact = contact(transport)
        self._retrying = Retrying(
            stop_max_attempt_number=attempts,
            wait_exponential_multiplier=FIRST_WAIT * 1000 / 2,
            wait_exponential_max=LONGEST_WAIT * 1000,
            retry_on_exception=_may_succeed_later,
        )

    # -- claims ---------------------------------------------------------------------------------

    def instance_claim(
        self,
        context: RequestContext,
        instance: Document,
        *,
        node: str | None = None,
        limits: Document = None,
        allocations: Document = None,
        tag: str | None = None,
        extra_resource: Document = None,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Hold resources for a build; the claim, whose uuid is the operation id.

        :raises ComputeResourcesUnavailable: with every reason. :raises ClaimConflict: the instance
            has a claim. :raises ClaimExpired: the operation's claim has ended.
        """
        return self._change(
            context,
            "instance_claim",
            operation_id,
            timeout,
            instance=instance,
            node=node,
            limits=limits,
            allocations=allocations,
            tag=tag,
            extra_resource=extra_resource,
        )

    def activate_claim(
        self,
        context: RequestContext,
        claim_uuid: str,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """The domain is about to be started; the claim.

        :raises ClaimExpired: it must not be started.
        """
        return self._change(context, "activate_claim", operation_id, timeout, claim_uuid=claim_uuid)

    def renew_claim(
        self,
        context: RequestContext,
        claim_uuid: str,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """A new lease; the claim."""
        return self._change(context, "renew_claim", operation_id, timeout, claim_uuid=claim_uuid)

    def abort_instance_claim(
        self,
        context: RequestContext,
        claim_uuid: str,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Give up a build; also one whose claim was never answered: its operation id will do."""
        self._change(context, "abort_instance_claim", operation_id, timeout, claim_uuid=claim_uuid)

    def release_claim(
        self,
        context: RequestContext,
        claim_uuid: str,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Release a claim."""
        self._change(context, "release_claim", operation_id, timeout, claim_uuid=claim_uuid)

    def update_usage(
        self,
        context: RequestContext,
        instance: Document,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Tell an instance's new state."""
        self._change(context, "update_usage", operation_id, timeout, instance=instance)

    def test_claim(
        self,
        context: RequestContext,
        instance: Document,
        *,
        kind: str = "build",
        pci_requests: Document = None,
        node: str | None = None,
        limits: Document = None,
        allocations: Document = None,
        tag: str | None = None,
        extra_resource: Document = None,
        flavor: Document = None,
        image: Document = None,
        migration: Document = None,
        source: Document = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """What the claim would be answered now: ``{"granted", "claim", "reasons"}``."""
        return self._call(
            context,
            "test_claim",
            timeout,
            kind=kind,
            pci_requests=pci_requests,
            instance=instance,
            node=node,
            limits=limits,
            allocations=allocations,
            tag=tag,
            extra_resource=extra_resource,
            flavor=flavor,
            image=image,
            migration=migration,
            source=source,
        )

    # -- reads ----------------------------------------------------------------------------------

    def get_claim(
        self, context: RequestContext, claim_uuid: str, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """``{"claim", "revision", "stale"}``. :raises ClaimNotFound: it never was, or has ended."""
        return self._call(context, "get_claim", timeout, claim_uuid=claim_uuid)

    def get_claims_for_instance(
        self, context: RequestContext, instance_uuid: str, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """``{"claims", "revision", "stale"}``, the oldest claim first."""
        return self._call(context, "get_claims_for_instance", timeout, instance_uuid=instance_uuid)

    def get_claims_for_host(
        self, context: RequestContext, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """``{"claims", "revision", "stale"}``, the oldest claim first."""
        return self._call(context, "get_claims_for_host", timeout)

    def get_node(
        self,
        context: RequestContext,
        *,
        node: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """``{"node", "revision", "stale"}``."""
        return self._call(context, "get_node", timeout, node=node)

    # -- the node and its service ---------------------------------------------------------------

    def update_available_resource(
        self,
        context: RequestContext,
        *,
        node: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Audit now; the summary."""
        return self._call(context, "update_available_resource", timeout, node=node)

    def sync_placement(
        self,
        context: RequestContext,
        *,
        node: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Have Placement read anew and brought up to date: ``{"revision"}``.

        :raises PlacementError: why it is not up to date.
        """
        return self._call(context, "sync_placement", timeout, node=node)

    def build_failed(
        self,
        context: RequestContext,
        *,
        node: str | None = None,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Count a failed build."""
        self._change(context, "build_failed", operation_id, timeout, node=node)

    def build_succeeded(
        self,
        context: RequestContext,
        *,
        node: str | None = None,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Begin to count failed builds at zero again."""
        self._change(context, "build_succeeded", operation_id, timeout, node=node)

    def set_service(
        self,
        context: RequestContext,
        disabled: bool,
        disabled_reason: str | None = None,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Take the host out of scheduling, or back into it; the service's record."""
        return self._change(
            context,
            "set_service",
            operation_id,
            timeout,
            disabled=disabled,
            disabled_reason=disabled_reason,
        )

    def ping(self, context: RequestContext, *, timeout: float | None = None) -> dict[str, Any]:
        """``{"version", "host", "node", "revision", "uptime"}``."""
        return self._call(context, "ping", timeout)

    # -- every call -----------------------------------------------------------------------------

    def _change(
        self,
        context: RequestContext,
        method: str,
        operation_id: str | None,
        timeout: float | None,
        **arguments: Any,
    ) -> Any:
        if operation_id is not None:
            return self._call(context, method, timeout, operation_id=operation_id, **arguments)
        made = str(uuid.uuid4())
        try:
            return self._call(context, method, timeout, operation_id=made, **arguments)
        except Exception as error:
            error.add_note(f"operation id {made}")
            raise

    def _call(
        self,
        context: RequestContext,
        method: str,
        timeout: float | None,
        **arguments: Any,
    ) -> Any:
        document = _document(arguments)
        client = self._client if timeout is None else self._client.prepare(timeout=timeout)
        seconds = REACH + (self._timeout if timeout is None else timeout)

        def attempt() -> Any:
            self._contact.make(self._knock, seconds)
            try:
                return client.call(context, method, **document)
            except RtAgentError as error:
                raise _local(error) from None
            except OperationalError as error:  # of a new connection: the library lets it through
                raise oslo_messaging.MessageDeliveryFailure(str(error)) from error

        return self._retrying.call(attempt)

    def _knock(self) -> None:
        self._client.prepare(timeout=KNOCK).call(RequestContext(overwrite=False), "ping")


def _document(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """JSON primitives; what is None is left out."""
    given = {name: value for name, value in arguments.items() if value is not None}
    document: dict[str, Any] = msgspec.to_builtins(given)
    return document


def _may_succeed_later(error: BaseException) -> bool:
    if isinstance(error, RtAgentError):
        return error.retriable
    return isinstance(error, UNANSWERED)


def _local(error: RtAgentError) -> RtAgentError:
    """The error as it left the agent: what oslo.messaging makes of it is a subclass of its own that
    prints the agent's traceback."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    local: RtAgentError = kind(**error.kwargs)
    return local
