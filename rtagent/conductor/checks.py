"""What is checked before an operation begins: arguments, and that a host is down."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rtagent.conductor.errors import ServerConflict
from rtagent.conductor.run import Outside
from rtagent.errors import AgentUnreachable, InvalidRequest, RtAgentError
from rtagent.model.base import DOMAIN_TITLE, Converter, Document, Uuid
from rtagent.model.schema_errors import schema_errors
from rtagent.model.server import Server

ServerName = Annotated[str, Meta(pattern=DOMAIN_TITLE, max_length=200)]


class Identity(Document, frozen=True, kw_only=True):
    """The uuid and the name of a server."""

    uuid: Uuid
    name: ServerName


_identities = Converter(Identity)


def checked_identity(uuid: str, name: str) -> Identity:
    """Return the identity of a server to build. :raises InvalidRequest:"""
    document = {"uuid": uuid, "name": name}
    try:
        return _identities.convert(document)
    except msgspec.ValidationError as refusal:
        found = schema_errors(msgspec.json.schema(Identity), document) or [("$", str(refusal))]
        errors = [{"path": path, "message": message} for path, message in found]
        raise InvalidRequest(method="build", errors=errors) from refusal


def check_reason(method: str, reason: str) -> None:
    """Check that an operator gives a reason. :raises InvalidRequest:"""
    if not reason.strip():
        raise InvalidRequest.at(method, "$.reason", "must not be empty")


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
