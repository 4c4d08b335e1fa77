"""The method table of the agents' RPC API."""

from __future__ import annotations

from rtagent.rpc import (
    claim_endpoint,
    device_endpoint,
    move_endpoint,
    node_endpoint,
    read_endpoint,
    topics,
)
from rtagent.rpc.method import MethodTable, declared

#: The modules are in the order in which the reference lists their methods.
AGENT_API = MethodTable(
    topic=topics.AGENT,
    version="1.9",
    methods=declared(claim_endpoint, move_endpoint, device_endpoint, read_endpoint, node_endpoint),
)
METHODS = AGENT_API.methods
