"""The method tables of both RPC APIs."""

from collections.abc import Mapping

from rtagent.rpc import (
    claim_endpoint,
    device_endpoint,
    move_endpoint,
    node_endpoint,
    read_endpoint,
    report_endpoint,
    scheduler_endpoint,
)
from rtagent.rpc.method import MethodTable, declared
from rtagent.rpc.topics import AGENT, SCHEDULER

# The modules are in the order in which the reference lists their methods.
AGENT_API = MethodTable(
    topic=AGENT,
    version="1.9",
    methods=declared(claim_endpoint, move_endpoint, device_endpoint, read_endpoint, node_endpoint),
)
SCHEDULER_API = MethodTable(
    topic=SCHEDULER, version="1.4", methods=declared(scheduler_endpoint, report_endpoint)
)
METHODS = AGENT_API.methods
#: By topic.
TABLES: Mapping[str, MethodTable] = {table.topic: table for table in (AGENT_API, SCHEDULER_API)}
