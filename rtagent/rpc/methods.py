"""The method table of the RPC API: every method that an endpoint group declares."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.rpc import topics
from rtagent.rpc.claim_endpoint import AdoptionEndpoint, ClaimEndpoint
from rtagent.rpc.device_endpoint import DeviceEndpoint
from rtagent.rpc.method import Method, declared
from rtagent.rpc.move_endpoint import AllocationEndpoint, MoveEndpoint
from rtagent.rpc.node_endpoint import DrainEndpoint, HostReportEndpoint, NodeEndpoint
from rtagent.rpc.read_endpoint import DocumentEndpoint, ReadEndpoint

TOPIC = topics.AGENT
VERSION = "1.9"

#: In the order in which the reference lists their methods.
GROUPS = (
    ClaimEndpoint,
    MoveEndpoint,
    DeviceEndpoint,
    AllocationEndpoint,
    AdoptionEndpoint,
    ReadEndpoint,
    NodeEndpoint,
    DrainEndpoint,
    DocumentEndpoint,
    HostReportEndpoint,
)

#: By name.
METHODS: Mapping[str, Method] = {
    method.name: method for group in GROUPS for method in declared(group)
}
