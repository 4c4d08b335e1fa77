"""A server that only echoes, the floor of every call: python -m benchmarks.echo TRANSPORT_URL.

It and its client are oslo.messaging as it comes, without the agent's own connections.
"""

from __future__ import annotations

import logging
import signal
import sys
from typing import Any

import kombu.transport
import oslo_messaging
from oslo_config import cfg

from rtagent.rpc import driver

#: kombu's own connections, in a process that has replaced those for "amqp".
PLAIN = "kombu+plainamqp"

TARGET = oslo_messaging.Target(topic="rtagent-bench-echo", server="echo")


class Echo:
    """One method."""

    def echo(self, _: dict[str, Any], **arguments: Any) -> Any:
        return arguments


def plain_transport(url: str) -> Any:
    """Return oslo.messaging's own transport for this URL, not connected yet."""
    kombu.transport.TRANSPORT_ALIASES["plainamqp"] = "kombu.transport.pyamqp:Transport"
    logging.getLogger("oslo.messaging._drivers.impl_rabbit").addFilter(_matters)
    conf = cfg.ConfigOpts()
    conf([], project="rtagent", default_config_files=[])
    driver.register_options(conf)
    return oslo_messaging.get_rpc_transport(conf, url.replace("rabbit", PLAIN, 1))


def _matters(record: logging.LogRecord) -> bool:
    """Leave out what oslo.messaging warns about at each connection: a scheme of kombu's own."""
    return "experimental feature" not in record.msg


def main() -> None:
    transport = plain_transport(sys.argv[1])
    server = oslo_messaging.get_rpc_server(
        transport, TARGET, [Echo()], access_policy=oslo_messaging.DefaultRPCAccessPolicy
    )
    server.start()
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main()
