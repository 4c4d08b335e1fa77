"""The definitions of RabbitMQ for a list of hosts, to be imported by ``rabbitmqctl``."""

import re
from collections.abc import Sequence
from typing import Any

from rtagent.errors import InvalidRequest
from rtagent.rpc import AGENT, SCHEDULER
from rtagent.rpc.broker.names import fanout_exchange
from rtagent.rpc.broker.rights import (
    AGENT_USER,
    Names,
    UserPermissions,
    agent_access,
    conductor_access,
    literal,
    operator_access,
    pattern,
    scheduler_access,
)

#: The characters of the common name of a certificate at most. It is the name of the user.
COMMON_NAME = 64
#: The messages that may wait for one agent, and for a consumer of events. More are rejected, so
#: that the sender repeats them later.
WAITING, EVENTS = 10_000, 1_000_000

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")


def definitions(hosts: Sequence[str], vhost: str, names: Names) -> dict[str, Any]:
    """Return a virtual host, its users without passwords, and their permissions.

    The exchanges exist before their users, who may neither declare nor delete them. So does the
    queue of events, so that none is lost before the first consumer.

    :param hosts: ``[DEFAULT] host`` of each agent.
    :raises InvalidRequest: a name cannot be a part of a regular expression or a certificate.
    """
    _check(hosts, vhost, names)
    users = [
        conductor_access(names),
        scheduler_access(names),
        operator_access(names),
        *(agent_access(host, names) for host in sorted(set(hosts))),
    ]
    where = {"vhost": vhost}
    kept = {"durable": True, "auto_delete": False, "arguments": {}}
    fanouts = [fanout_exchange(topic) for topic in (AGENT, SCHEDULER)]
    return {
        "vhosts": [{"name": vhost}],
        # RabbitMQ accepts no password if there is no hash.
        "users": [
            {"name": access.user, "password_hash": "", "tags": [], "limits": {}} for access in users
        ],
        "permissions": [_permissions(access, vhost) for access in users],
        "topic_permissions": [_topic_permissions(access, vhost, names) for access in users],
        "exchanges": [
            {"name": name, **where, "type": type_, "internal": False, **kept}
            for name, type_ in ((names.exchange, "topic"), *((name, "fanout") for name in fanouts))
        ],
        "queues": [{"name": name, **where, **kept} for name in names.notifications],
        "bindings": [_binding(names.exchange, name, vhost) for name in names.notifications],
        "policies": [
            _policy("agents", f"^{AGENT}\\.", WAITING, vhost),
            _policy("events", pattern([*map(literal, names.notifications)]), EVENTS, vhost),
        ],
    }


def _check(hosts: Sequence[str], vhost: str, names: Names) -> None:
    longest = COMMON_NAME - len(AGENT_USER)
    errors = [
        _error("host", host, f"must have 1 to {longest} letters, digits, '.', '_' and '-'")
        for host in hosts
        if not _HOST.match(host) or len(host) > longest
    ]
    for path, value in (
        ("vhost", vhost),
        ("control_exchange", names.exchange),
        *(("topics", name) for name in names.notifications),
    ):
        if not _NAME.match(value):
            errors.append(_error(path, value, "must have letters, digits, '.', '_' and '-' only"))
    if errors:
        raise InvalidRequest(method="broker definitions", errors=errors)


def _error(path: str, value: str, rule: str) -> dict[str, str]:
    return {"path": path, "message": f"{value!r} {rule}"}


def _permissions(access: UserPermissions, vhost: str) -> dict[str, str]:
    return {
        "user": access.user,
        "vhost": vhost,
        "configure": pattern(access.configure),
        "write": pattern(access.write),
        "read": pattern(access.read),
    }


def _topic_permissions(access: UserPermissions, vhost: str, names: Names) -> dict[str, str]:
    return {
        "user": access.user,
        "vhost": vhost,
        "exchange": names.exchange,
        "write": pattern(access.send),
        "read": pattern(access.receive),
    }


def _binding(exchange: str, queue: str, vhost: str) -> dict[str, Any]:
    return {
        "source": exchange,
        "vhost": vhost,
        "destination": queue,
        "destination_type": "queue",
        "routing_key": queue,
        "arguments": {},
    }


def _policy(name: str, queues: str, waiting: int, vhost: str) -> dict[str, Any]:
    return {
        "vhost": vhost,
        "name": name,
        "pattern": queues,
        "apply-to": "queues",
        "definition": {"max-length": waiting, "overflow": "reject-publish"},
        "priority": 0,
    }
