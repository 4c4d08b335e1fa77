"""The method table of the schedulers' RPC API."""

from __future__ import annotations

from rtagent.rpc import report_endpoint, scheduler_endpoint, topics
from rtagent.rpc.method import MethodTable, declared

#: The modules are in the order in which the reference lists their methods.
SCHEDULER_API = MethodTable(
    topic=topics.SCHEDULER,
    version="1.3",
    methods=declared(scheduler_endpoint, report_endpoint),
)
METHODS = SCHEDULER_API.methods
