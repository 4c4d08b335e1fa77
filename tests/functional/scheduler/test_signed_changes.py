"""Signed calls to one of several schedulers, over a real message broker."""

from pathlib import Path
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.rpc import SCHEDULER, VERSIONS
from rtagent.rpc.client import SchedulerAPI
from rtagent.rpc.trust.keys import read_ring
from rtagent.rpc.trust.token import CallClaims, proved
from tests.servers import RabbitMQ
from tests.support.hosts import uid
from tests.support.scheduler_rpc import spec
from tests.support.trust import KeyFiles
from tests.support.workload.deployment import open_transport

CONTEXT = RequestContext(user_id="alice", roles=["operator"], overwrite=False)


class Peer:
    """Takes the calls of schedulers. :ivar tokens: by method."""

    target = oslo_messaging.Target(version=VERSIONS[SCHEDULER])

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}

    def ping(self, context: dict[str, Any]) -> Any:
        return {"host": "s1"}

    def force_down_service(self, context: dict[str, Any], **arguments: Any) -> None:
        self._note("force_down_service", context)

    def select_destinations(self, context: dict[str, Any], **arguments: Any) -> None:
        self._note("select_destinations", context)

    def _note(self, method: str, context: dict[str, Any]) -> None:
        self.tokens[method] = context["signature"]


def test_a_signed_change_is_for_one_scheduler_and_a_selection_for_any(
    tmp_path: Path, rabbitmq: RabbitMQ
):
    files, peer = KeyFiles(tmp_path), Peer()
    files.add("ops", "operator")
    transport = open_transport(rabbitmq.transport_url, files.options("ops"))
    server = oslo_messaging.get_rpc_server(
        transport,
        oslo_messaging.Target(topic=SCHEDULER, server="s1"),
        [peer],
        executor="threading",
        access_policy=oslo_messaging.DefaultRPCAccessPolicy,
    )
    server.start()
    try:
        api = SchedulerAPI(transport, timeout=30, attempts=1)
        api.force_down_service(CONTEXT, host="cn1", forced_down=True)
        api.select_destinations(CONTEXT, spec(), [uid()])
    finally:
        server.stop()
        server.wait()
        transport.cleanup()
    found = read_ring(str(files.path)).get("ops")
    assert found is not None
    signed_for = {
        name: proved(each, found[1], CallClaims).aud for name, each in peer.tokens.items()
    }
    assert signed_for == {"force_down_service": "scheduler.s1", "select_destinations": "scheduler"}
