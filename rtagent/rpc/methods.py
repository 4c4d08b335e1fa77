"""The method table of the RPC API: every method that an endpoint group declares."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.rpc import topics
from rtagent.rpc.adoption_endpoint import AdoptionEndpoint
from rtagent.rpc.allocation_endpoint import AllocationEndpoint
from rtagent.rpc.claim_endpoint import ClaimEndpoint
from rtagent.rpc.device_endpoint import DeviceEndpoint
from rtagent.rpc.document_endpoint import DocumentEndpoint
from rtagent.rpc.drain_endpoint import DrainEndpoint
from rtagent.rpc.host_report_endpoint import HostReportEndpoint
from rtagent.rpc.method import Method, declared
from rtagent.rpc.move_endpoint import MoveEndpoint
from rtagent.rpc.node_endpoint import NodeEndpoint
from rtagent.rpc.read_endpoint import ReadEndpoint

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
