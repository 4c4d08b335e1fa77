"""The RPC APIs by topic: what the commands and the documentation show of them."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.rpc.method import MethodTable
from rtagent.rpc.methods import AGENT_API
from rtagent.rpc.scheduler_methods import SCHEDULER_API

TABLES: Mapping[str, MethodTable] = {table.topic: table for table in (AGENT_API, SCHEDULER_API)}
