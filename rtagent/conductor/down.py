"""Whether a server's host is down, so that the server may be started elsewhere."""

from __future__ import annotations

from rtagent.conductor.errors import ServerConflict
from rtagent.conductor.run import Outside
from rtagent.errors import AgentUnreachable, RtAgentError
from rtagent.model.server import Server


def check_down(server: Server, outside: Outside) -> None:
    """Check that an operator has forced a server's host down; or that neither its agent answers,
    nor the guest runs there.

    :raises ServerConflict: one of them does.
    """
    place = server.place
    assert place is not None
    if _forced_down(place.host, outside):
        return
    if _answers(place.host, outside):
        why = f"the agent of {place.host} answers: migrate the server"
    elif _runs(place.host, server.uuid, outside):
        why = f"the guest runs on {place.host}, although no agent answers: start the agent"
    else:
        return
    why = f"{why}, or force the host down: rtagent service force-down {place.host}"
    raise ServerConflict(server_uuid=server.uuid, kind="evacuation", why=why)


def _forced_down(host: str, outside: Outside) -> bool:
    """Return whether an operator is known to have forced a host down."""
    try:
        return outside.scheduler.is_forced_down(host)
    except RtAgentError:
        return False


def _answers(host: str, outside: Outside) -> bool:
    """Return whether an agent answers. An error of its own is an answer, too."""
    try:
        outside.agents.call(host, None, "ping")
    except AgentUnreachable:
        return False
    except RtAgentError:
        return True
    return True


def _runs(host: str, server_uuid: str, outside: Outside) -> bool:
    """Return whether a guest is known to run on a host."""
    try:
        return outside.enactor.state(host, server_uuid) == "running"
    except RtAgentError:
        return False
