"""Drain a node: begin it, end it, and refuse new claims meanwhile. Pure."""

from datetime import datetime

from msgspec.structs import replace

from rtagent.errors import NodeDraining
from rtagent.lifecycle.consequences import unchanged
from rtagent.model.change import Call
from rtagent.model.decision import Granted
from rtagent.model.node import Drain
from rtagent.model.node_state import NodeState


def check_not_draining(state: NodeState) -> None:
    """:raises NodeDraining: the node drains."""
    if (error := draining_error(state)) is not None:
        raise error


def draining_error(state: NodeState) -> NodeDraining | None:
    """Return the error that calls get which create claims; None: the node does not drain."""
    drain = state.drain
    if drain is None:
        return None
    return NodeDraining(
        str(drain),
        node=state.node.hypervisor_hostname,
        reason=drain.reason,
        deadline=drain.deadline.isoformat() if drain.deadline else None,
    )


def drain(
    state: NodeState, call: Call, now: datetime, reason: str, deadline: datetime | None
) -> Granted:
    """Begin to drain the node: it creates no claims from now on, and existing ones stay. If it
    drains already, replace reason and deadline."""
    since = state.drain.since if state.drain is not None else now
    new = Drain(since=since, reason=reason, deadline=deadline, actor=call.actor)
    return Granted(replace(unchanged(call, now).change, drain=new))


def undrain(state: NodeState, call: Call, now: datetime) -> Granted:
    """Let the node create claims again."""
    return Granted(replace(unchanged(call, now).change, undrained=state.drain is not None))
