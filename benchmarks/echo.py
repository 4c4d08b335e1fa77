"""A server that only echoes, the floor of every call: python -m benchmarks.echo TRANSPORT_URL."""

from __future__ import annotations

import signal
import sys
from typing import Any

import oslo_messaging
from oslo_config import cfg

from rtagent.rpc.transport import get_transport

TARGET = oslo_messaging.Target(topic="rtagent-bench-echo", server="echo")


class Echo:
    """One method."""

    def echo(self, _: dict[str, Any], **arguments: Any) -> Any:
        return arguments


def main() -> None:
    conf = cfg.ConfigOpts()
    conf([], project="rtagent", default_config_files=[])
    transport = get_transport(conf, sys.argv[1])
    server = oslo_messaging.get_rpc_server(
        transport, TARGET, [Echo()], access_policy=oslo_messaging.DefaultRPCAccessPolicy
    )
    server.start()
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main()
