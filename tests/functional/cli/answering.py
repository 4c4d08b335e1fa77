"""An agent and a scheduler that answer the commands in this process."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from rtagent.api.address import UnixAddress
from rtagent.api.application import Answering
from rtagent.api.server import ReadAPI
from rtagent.rpc.server import RpcServer
from rtagent.rpc.serving import InFlight
from rtagent.rpc.transport import get_transport
from tests.support.configurations import parsed
from tests.support.rpc import Agent


@contextlib.contextmanager
def answering(
    directory: Path,
    agent: Agent,
    endpoints: Mapping[str, object],
    documents: Mapping[str, Answering],
) -> Iterator[Path]:
    """Serve, and yield the configuration file with which commands reach the servers.

    :param agent: with the clock of the servers. :param endpoints: by their topic.
    :param documents: what read APIs show: of the agent, ``api``, and of the ``scheduler``.
    """
    conf = parsed(
        directory,
        f"[DEFAULT]\ntransport_url = fake://\ncontrol_exchange = {directory.name}\nhost = cn1\n"
        f"state_path = {directory}\n[api]\naddress = {directory}/api.sock\n"
        f"[scheduler]\napi_address = {directory}/scheduler.sock\n",
    )
    with contextlib.ExitStack() as stack:
        # The servers log into this process, not into the commands'.
        for name in ("rtagent.rpc", "rtagent.access"):
            log = logging.getLogger(name)
            stack.callback(log.setLevel, log.level)
            log.setLevel(logging.CRITICAL)
        for topic, endpoint in endpoints.items():
            server = RpcServer(
                get_transport(conf),
                "cn1",
                endpoint,
                InFlight(agent.clock),
                agent.clock,
                agent.telemetry,
                topic=topic,
            )
            server.start()
            stack.callback(server.stop, 30)
            assert server.wait_started(60)
        for name, shown in documents.items():
            api = ReadAPI(UnixAddress(f"{directory}/{name}.sock"), shown)
            api.start()
            stack.callback(api.stop)
        yield directory / "rtagent.conf"
