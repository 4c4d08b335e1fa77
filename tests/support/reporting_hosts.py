"""Hosts that exist only as reports on the message bus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging
from msgspec.structs import replace
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.model.node_state import NodeState
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.scheduler_client import SchedulerAPI
from rtagent.rpc.topics import SCHEDULER
from rtagent.rpc.transport import get_transport
from rtagent.scheduler.report import description_of, digest_of, instances_digest, report_of
from rtagent.scheduler.report_documents import report_document
from tests.support.host_states import node_named
from tests.support.hosts import host


class SchedulerBus:
    """The message bus of the schedulers. :ivar api: the client of a conductor.
    :ivar transport: for other clients.
    """

    def __init__(self, url: str) -> None:
        conf = cfg.ConfigOpts()
        conf([])
        self.transport = get_transport(conf, url)
        conf.set_override("rabbit_interval_max", 1, group="oslo_messaging_rabbit")
        self.api = SchedulerAPI(self.transport, timeout=30)
        self.context = RequestContext(user_id="alice", roles=["operator"], overwrite=False)
        self._client = oslo_messaging.get_rpc_client(
            self.transport,
            oslo_messaging.Target(topic=SCHEDULER, version="1.0", fanout=True),
            serializer=ContextSerializer(),
        )

    def cast(self, method: str, **document: Any) -> None:
        """Cast a message to every scheduler."""
        self._client.cast(self.context, method, **document)

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a scheduler."""
        return getattr(self.api, method)(self.context, *arguments, **named)

    def report(self, *names: str, state: NodeState | None = None, revision: int = 1) -> None:
        """Report hosts with 8 CPUs, 16 GB and 100 GB of disk, all free.

        :param state: of every host, in place of that.
        """
        for name in names:
            made = replace(
                state or host(), node=node_named(name), epoch=1, revision=revision, claims={}
            )
            self.cast("update_host_state", report=_document(made, ()))

    def close(self) -> None:
        """Close the connections."""
        self.transport.cleanup()


def _document(state: NodeState, instances: Sequence[str]) -> dict[str, Any]:
    description = description_of(state)
    report = report_of(state, digest_of(description), instances_digest=instances_digest(instances))
    return report_document(replace(report, description=description))
