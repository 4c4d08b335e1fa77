"""The hosts of a fleet, as a scheduler knows them and as `room` counts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rtagent.model.base import Value
from rtagent.model.host_report import InstanceInfo
from rtagent.model.node_state import NodeState


class FleetHost(Value, frozen=True, kw_only=True):
    """One host, for the builds of one request.

    :ivar host: the service's host. :ivar uuid: of the node.
    :ivar state: one that `judged` returns, with the claims that selections have assumed. A build of
        a new owner is decided on it as the host's agent decides. All other owners are one total, so
        it has none of their claims.
    :ivar refused: why the host takes no build whatever is free: the filter, and its sentence; "":
        it takes builds.
    :ivar instances: the owners on the host, by uuid, with their claims. A value is decoded when it
        is read.
    :ivar own_state: returns the state with the claims of one of these owners as claims.
    """

    host: str
    nodename: str
    uuid: str
    state: NodeState
    refused: str
    instances: Mapping[str, InstanceInfo]
    own_state: Callable[[str], NodeState]
