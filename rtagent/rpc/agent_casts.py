"""The messages of a scheduler to agents."""

from __future__ import annotations

import oslo_messaging

from rtagent.rpc import roles
from rtagent.rpc.bounded_casts import BoundedCasts, Message
from rtagent.rpc.topics import AGENT

#: The version of the agents' API that requests for reports need.
REPORTS = "1.3"
#: The version that `forced_down` needs.
FORCED_DOWN = "1.7"


def agent_casts(transport: oslo_messaging.RPCTransport, version: str = REPORTS) -> BoundedCasts:
    """Return what casts to the agents. :param version: the one that the messages need."""
    return BoundedCasts(transport, AGENT, version, roles.SCHEDULER)


def report_host_state(*, description: bool, instances: bool) -> Message:
    """Return the message that asks for a report.

    :param description: also what claims do not change. :param instances: also all instances.
    """
    arguments = {"description": description, "instances": instances}
    return Message(method="report_host_state", arguments=arguments)


def forced_down(forced: bool) -> Message:
    """Return the message that has whether an operator has forced the host of an agent down."""
    return Message(method="update_forced_down", arguments={"forced_down": forced})
