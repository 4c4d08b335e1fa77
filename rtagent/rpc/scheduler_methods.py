"""The method table of the schedulers' RPC API."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.rpc.aggregate_endpoint import AggregateEndpoint
from rtagent.rpc.method import Method, declared
from rtagent.rpc.report_endpoint import ReportEndpoint
from rtagent.rpc.scheduler_endpoint import PingEndpoint
from rtagent.rpc.selection_endpoint import SelectionEndpoint
from rtagent.rpc.service_endpoint import ServiceEndpoint

#: In the order in which the reference lists their methods.
GROUPS = (SelectionEndpoint, AggregateEndpoint, ServiceEndpoint, ReportEndpoint, PingEndpoint)

#: By name.
METHODS: Mapping[str, Method] = {
    method.name: method for group in GROUPS for method in declared(group)
}
