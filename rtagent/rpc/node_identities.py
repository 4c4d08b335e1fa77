"""NodeIdentities: which agent may report a node, and at which epochs.

What the database has counts, and not which agent reports first after a scheduler was started. A
node in ``compute_nodes`` is of the host that its agent has written there, and its epoch is at most
the one there. Another node is of the host whose key has reported it first, see `NodeHosts`.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NoReturn, Protocol

from rtagent.errors import InvalidRequest
from rtagent.model.node import NodeHost
from rtagent.ports import Clock
from rtagent.rpc.errors import SignatureInvalid
from rtagent.rpc.scheduler_endpoint import reported
from rtagent.rpc.trust.access import Caller

#: The most nodes of a host that are not in ``compute_nodes``: the present one, and earlier ones
#: that may still be in a view. A further one takes the place of the first.
MAX_NODES = 4
#: The number of nodes whose rows are remembered.
MAX_KNOWN = 100_000


class Nodes(Protocol):
    """The rows, see `NodeHosts`. All methods raise `StoreUnavailable`."""

    def registered(self, node_uuid: str) -> NodeHost | None:
        """Return the host of a node in ``compute_nodes``, or None."""

    def recorded(self, node_uuid: str) -> str | None:
        """Return the host that is recorded for another node, or None."""

    def record(self, node_uuid: str, host: str, now: datetime, most: int) -> Sequence[str]:
        """Record the host of a node. Return the nodes that are forgotten for it."""


class NodeIdentities:
    """A `CheckCaller` of a scheduler. Thread-safe: at worst, rows are read twice."""

    def __init__(
        self,
        nodes: Nodes,
        has_key: Callable[[str], bool],
        forget: Callable[[str], None],
        clock: Clock,
    ) -> None:
        """:param has_key: whether a key of this host is known: otherwise others may take its nodes.
        :param forget: drops a node from the view.
        """
        self._nodes, self._has_key, self._forget = nodes, has_key, forget
        self._clock = clock
        self._known: dict[str, NodeHost] = {}

    def __call__(self, caller: Caller, method: str, arguments: Any) -> None:
        """Refuse the report of an agent about another host, about the node of another host, or of
        an epoch that the node has not had.

        :raises SignatureInvalid: InvalidRequest: StoreUnavailable:
        """
        sender = reported(arguments)
        if sender is None:
            return
        host, node_uuid, epoch = sender
        if caller.host not in (None, host):
            _refuse(caller, method, f"the report is of {host}: make a key for each agent")
        if node_uuid is None:
            return
        node = self._known.get(node_uuid)
        if node is None or not node.allows(caller.host, epoch):
            node = self._read(node_uuid, caller.host)
        if caller.host not in (None, node.host):
            _refuse(
                caller,
                method,
                f"the node {node_uuid} is of {node.host}: if it no longer is, revoke the key of"
                f" {node.host} with rtagent key revoke, and reload the schedulers",
            )
        if not node.allows(None, epoch):
            path = "$.report.epoch" if method == "update_host_state" else "$.epoch"
            message = f"is {epoch}, and the database has {node.epoch} for the node {node_uuid}"
            raise InvalidRequest.at(method, path, message)

    def _read(self, node_uuid: str, host: str | None) -> NodeHost:
        """Return the host of a node, and record it if none is. :param host: of the caller's key."""
        node = self._nodes.registered(node_uuid) or NodeHost(host=self._recorded(node_uuid, host))
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[node_uuid] = node
        return node

    def _recorded(self, node_uuid: str, host: str | None) -> str | None:
        recorded = self._nodes.recorded(node_uuid)
        if host in (None, recorded) or (recorded is not None and self._has_key(recorded)):
            return recorded
        for forgotten in self._nodes.record(node_uuid, host, self._clock.now(), MAX_NODES):
            self._known.pop(forgotten, None)
            self._forget(forgotten)
        return host


def _refuse(caller: Caller, method: str, reason: str) -> NoReturn:
    reason = f"the key {caller.name} is of the host {caller.host}, and {reason}"
    raise SignatureInvalid(method=method, key=caller.name, reason=reason, skew=None)
