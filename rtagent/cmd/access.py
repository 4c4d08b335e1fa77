"""rtagent policy and rtagent broker: the rules that decide who may call what, and the users of the
message broker.
"""

import argparse
import json
from collections.abc import Iterator
from textwrap import wrap

from oslo_config import cfg
from oslo_policy.policy import DocumentedRuleDefault, RuleDefault

from rtagent.cmd.base import List, Row, Rows, Text
from rtagent.rpc.broker.definitions import definitions
from rtagent.rpc.broker.rights import Names
from rtagent.rpc.methods import list_rules
from rtagent.rpc.notifier import GROUP, PRIORITY
from rtagent.rpc.transport import get_notification_transport
from rtagent.service.trust import effective_rules

#: Characters of a line of the sample, without the comment sign.
WIDTH = 98
#: The source of a rule that no file has.
DEFAULT = "default"
#: The virtual host of RabbitMQ for the services of rtagent.
VHOST = "rtagent"


class PolicyGenerate(Text):
    """Print a sample policy file: every rule with its meaning and its default, as comments."""

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return ("sample",), ("\n".join(_sample()),)


class PolicyList(List):
    """List the rules in force, and the file that has each one, as the daemons read them."""

    nouns = "rules"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        rules = effective_rules(self.app.client.conf)
        for doubt in rules.doubts:
            self.app.LOG.warning(doubt)
        found = rules.enforcer.rules
        return ("Rule", "Check", "Source"), (
            (name, str(check), str(rules.sources.get(name, DEFAULT)))
            for name, check in sorted(found.items())
        )


class BrokerDefinitions(Text):
    """Print the definitions of RabbitMQ: a virtual host, its users and their permissions.

    There is a user for each host, agent-HOST, and the users conductor, scheduler and operator. None
    has a password: each one connects with a certificate. Import the definitions with `rabbitmqctl
    import_definitions FILE`, also after a host was added. `rabbitmqctl delete_user agent-HOST`
    removes the user of a host.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "hosts", nargs="+", metavar="HOST", help="The [DEFAULT] host of each agent."
        )
        parser.add_argument(
            "--vhost", default=VHOST, help=f"The name of the virtual host. Default: {VHOST}."
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        names = broker_names(self.app.client.conf)
        made = definitions(parsed_args.hosts, parsed_args.vhost, names)
        return ("definitions",), (json.dumps(made, indent=2),)


def broker_names(conf: cfg.ConfigOpts) -> Names:
    """Return the names at the broker that a configuration chooses."""
    get_notification_transport(conf)  # registers the options
    queues = [f"{topic}.{PRIORITY}" for topic in conf[GROUP].topics]
    return Names(exchange=conf.control_exchange, notifications=queues)


def _sample() -> Iterator[str]:
    for rule in list_rules():
        yield from (f"# {line}" for line in _meaning(rule))
        yield f'#"{rule.name}": "{rule.check_str}"'
        yield ""


def _meaning(rule: RuleDefault) -> Iterator[str]:
    """Yield the lines of a comment."""
    yield from wrap(rule.description or "", WIDTH)
    if isinstance(rule, DocumentedRuleDefault):
        yield from (f"{each['method']} {each['path']}" for each in rule.operations)
