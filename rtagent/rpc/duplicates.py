"""Duplicates: whether another agent serves this host name, and the calls that are refused then.

Two agents with one ``[DEFAULT] host`` share a queue of the message broker, so that a call reaches
either of them. An agent that does not know a claim must then not answer that it has ended.
"""

import math
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import msgspec

from rtagent.errors import DuplicateHost, NodeNotFound, NodeNotReady
from rtagent.identity import machine
from rtagent.model.base import Converter, Uuid, Value
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.request import Arguments, InstanceUpdate
from rtagent.ports import Clock
from rtagent.rpc.method import Change

#: Seconds for which a sign of another agent counts. The agents repeat their signs more often.
MEMORY = 20.0

#: Text of another agent, which is logged.
AsciiText = Annotated[str, msgspec.Meta(max_length=255, pattern="^[ -~]*$")]


class AgentIdentity(Value, frozen=True, kw_only=True):
    """One start of an agent.

    :ivar agent_uuid: made at the start. :ivar node: the hypervisor_hostname.
    :ivar machine_id: and the following: empty if they are not known. Clones of a machine often have
        its machine id; they never have its boot id.
    """

    agent_uuid: Uuid
    node_uuid: Uuid
    node: AsciiText
    machine_id: AsciiText = ""
    boot_id: AsciiText = ""
    state_path: AsciiText = ""
    host_ip: AsciiText = ""

    def __str__(self) -> str:
        known = {
            "machine": self.machine_id,
            "boot": self.boot_id,
            "address": self.host_ip,
            "state directory": self.state_path,
        }
        more = "".join(f", {name} {value}" for name, value in known.items() if value)
        return f"node {self.node_uuid} ({self.node}{more})"


_identity = Converter(AgentIdentity)


def agent_identity(node: Node, state_path: str) -> AgentIdentity:
    """Return the identity of a new start of the agent."""
    writer = machine.writer(state_path)
    return AgentIdentity(
        agent_uuid=str(uuid.uuid4()),
        node_uuid=node.uuid,
        node=ascii_text(node.hypervisor_hostname),
        machine_id=ascii_text(writer.machine_id),
        boot_id=ascii_text(writer.boot_id),
        state_path=ascii_text(writer.state_path),
        host_ip=ascii_text(node.host_ip),
    )


def ascii_text(text: str) -> str:
    """Return the text as `AsciiText`: escaped, and cut to its length."""
    safe = text.encode("ascii", "backslashreplace").decode()
    return "".join(each if " " <= each <= "~" else "?" for each in safe)[:255]


def identity_of(document: Any) -> AgentIdentity | None:
    """The identity in a reply of `ping`; None: the reply has none, or an invalid one."""
    try:
        return _identity.convert(document)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None


class Duplicates:
    """Records whether another agent serves this host name, and refuses calls then. Thread-safe.

    :ivar me: this agent. :ivar host: the name that it serves.
    """

    def __init__(
        self,
        me: AgentIdentity,
        host: str,
        clock: Clock,
        changed: Callable[[DuplicateHost | None], None],
    ) -> None:
        """:param changed: is called with the error that creating calls get from now on, or None."""
        self.me, self.host = me, host
        self._clock, self._changed = clock, changed
        self._lock = threading.Lock()
        self._other: AgentIdentity | None = None
        self._error: DuplicateHost | None = None
        self._last_sign = 0.0
        self._trusted_until = math.inf

    @property
    def error(self) -> DuplicateHost | None:
        """The error that names both agents; None: no other agent is known."""
        return self._error

    def seen(self, other: AgentIdentity | None) -> None:
        """Record a sign of another agent. :param other: None: it does not identify itself."""
        with self._lock:
            self._last_sign = self._clock.monotonic()
            if self._error is not None and not _adds(other, self._other):
                return
            self._other, theirs = other, str(other or "an agent of another version")
            self._error = DuplicateHost(host=self.host, ours=str(self.me), theirs=theirs)
            self._changed(self._error)

    def forget(self) -> None:
        """Forget another agent that has given no sign for `MEMORY` seconds."""
        with self._lock:
            if self._error and self._clock.monotonic() - self._last_sign >= MEMORY:
                self._error = self._other = None
                self._changed(None)

    def trust(self, seconds: float) -> None:
        """Trust for this time, and no longer, that this agent is the only one.

        So an agent whose process was suspended does not answer for unknown claims before it has the
        host lock again.
        """
        self._trusted_until = self._clock.monotonic() + seconds

    def check(self, snapshot: Callable[[], NodeState], arguments: Arguments) -> None:
        """Refuse a call that another agent is meant to serve, or may be.

        :param snapshot: returns the node's current state.
        :raises NodeNotFound: the call names another node.
        :raises Unavailable: the call names a claim or an instance that is unknown here, or changes
            something else without naming the node; and this agent may not be the only one.
        """
        state = snapshot()
        served = state.node
        if arguments.node not in (None, served.hypervisor_hostname):
            raise NodeNotFound(node=arguments.node, served=served.hypervisor_hostname)
        if arguments.node_uuid not in (None, served.uuid):
            raise NodeNotFound(node=arguments.node_uuid, served=served.uuid)
        trusted = self._clock.monotonic() < self._trusted_until
        if (trusted and self._error is None) or all(_known(arguments, state)):
            return
        if self._error is not None:
            # Without the traceback of earlier calls: each would add its frames to it.
            raise self._error.with_traceback(None)
        raise NodeNotReady("another agent may serve this host, because the host lock is not held")


def _adds(new: AgentIdentity | None, known: AgentIdentity | None) -> bool:
    """Return whether the new identity has more fields than the known one, or is that of another
    agent. A reply of `ping` has fewer fields than an answer of the host lock's holder.
    """
    if new is None or known is None or new == known:
        return new != known and new is not None
    return bool(new.machine_id) or new.agent_uuid != known.agent_uuid


def _known(arguments: Arguments, state: NodeState) -> Iterator[bool]:
    """Yield, for each claim that a call names, whether it exists here, and for each instance
    whether it has a claim here.

    For a change of something else, yield whether the call names the node. Calls that create a claim
    yield nothing.
    """
    claim_uuid: str | None = getattr(arguments, "claim_uuid", None)
    owner_id: str | None = getattr(arguments, "instance_uuid", None)
    instance = getattr(arguments, "instance", None)
    if isinstance(instance, InstanceUpdate):
        owner_id = instance.uuid
    if claim_uuid:
        yield claim_uuid in state.claims
    if owner_id:
        yield bool(state.claims_of(owner_id))
    if isinstance(arguments, Change) and not claim_uuid and not owner_id:
        yield arguments.node_uuid is not None
