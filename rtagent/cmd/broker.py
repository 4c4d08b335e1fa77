"""rtagent broker: the users of the message broker."""

from __future__ import annotations

import argparse
import json

from oslo_config import cfg

from rtagent.cmd.base import Row, Text
from rtagent.rpc.broker.definitions import definitions
from rtagent.rpc.broker.permissions import Names
from rtagent.rpc.notifier import GROUP, PRIORITY
from rtagent.rpc.transport import get_notification_transport

#: The virtual host of RabbitMQ for the services of rtagent.
VHOST = "rtagent"


class BrokerDefinitions(Text):
    """Print the definitions of RabbitMQ: a virtual host, its users and their permissions.

    There is a user for each host, agent-HOST, and the users conductor, scheduler and operator. None
    has a password: each one connects with a certificate. Import the definitions with `rabbitmqctl
    import_definitions FILE`, also after a host was added. `rabbitmqctl delete_user agent-HOST`
    removes the user of a host.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "hosts", nargs="+", metavar="HOST", help="The [DEFAULT] host of each agent."
        )
        parser.add_argument(
            "--vhost", default=VHOST, help=f"The name of the virtual host. Default: {VHOST}."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        names = broker_names(self.app.client.conf)
        made = definitions(parsed_args.hosts, parsed_args.vhost, names)
        return ("definitions",), (json.dumps(made, indent=2),)


def broker_names(conf: cfg.ConfigOpts) -> Names:
    """Return the names at the broker that a configuration chooses."""
    get_notification_transport(conf)  # registers the options
    queues = [f"{topic}.{PRIORITY}" for topic in conf[GROUP].topics]
    return Names(exchange=conf.control_exchange, notifications=queues)
