"""The RPC APIs by topic: what the commands and the documentation show of them."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value
from rtagent.rpc import methods, scheduler_endpoint, topics
from rtagent.rpc.method import Method


class MethodTable(Value, frozen=True, kw_only=True):
    """The methods of one API. :ivar version: the newest one."""

    topic: str
    version: str
    methods: Mapping[str, Method]


TABLES: Mapping[str, MethodTable] = {
    topics.AGENT: MethodTable(topic=topics.AGENT, version=methods.VERSION, methods=methods.METHODS),
    topics.SCHEDULER: MethodTable(
        topic=topics.SCHEDULER,
        version=scheduler_endpoint.VERSION,
        methods=scheduler_endpoint.METHODS,
    ),
}
