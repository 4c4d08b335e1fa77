"""The method tables of both RPC APIs, and the policy that is in force without an operator's own."""

import functools
from collections.abc import Iterator, Mapping, Sequence

from oslo_config import cfg
from oslo_policy import policy

from rtagent.rpc import (
    AGENT,
    SCHEDULER,
    claim_endpoint,
    move_endpoint,
    node_endpoint,
    read_endpoint,
    scheduler_endpoint,
)
from rtagent.rpc.method import MethodTable, declared
from rtagent.rpc.roles import ENOUGH, MEANINGS
from rtagent.rpc.trust.policy import rule_name

#: By topic: what the names of its rules begin with.
PREFIXES = {AGENT: "rtagent", SCHEDULER: "rtagent_scheduler"}


@functools.cache
def list_rules() -> Sequence[policy.RuleDefault]:
    """Return all rules, also for the tools of oslo.policy (``oslo.policy.policies``)."""
    return (*_roles(), *_methods())


def get_enforcer() -> policy.Enforcer:
    """Return an enforcer with all rules, for the tools of oslo.policy (``oslo.policy.enforcer``).

    It reads the files of the default configuration.
    """
    conf = cfg.ConfigOpts()
    conf([], project="rtagent")
    made = policy.Enforcer(conf)
    made.register_defaults(list_rules())
    return made


def _roles() -> Iterator[policy.RuleDefault]:
    for role, enough in ENOUGH.items():
        check = " or ".join(f"role:{each}" for each in enough)
        yield policy.RuleDefault(role, check, MEANINGS[role])


def _methods() -> Iterator[policy.RuleDefault]:
    for topic, table in TABLES.items():
        for method in table.methods.values():
            yield policy.DocumentedRuleDefault(
                rule_name(PREFIXES[topic], method.name),
                f"rule:{method.role}",
                method.effect.replace("``", ""),
                [{"path": f"{topic} {method.name}", "method": "cast" if method.cast else "call"}],
            )


# The modules are in the order in which the reference lists their methods.
AGENT_API = MethodTable(
    topic=AGENT,
    version="1.9",
    methods=declared(claim_endpoint, move_endpoint, read_endpoint, node_endpoint),
)
SCHEDULER_API = MethodTable(topic=SCHEDULER, version="1.4", methods=declared(scheduler_endpoint))
METHODS = AGENT_API.methods
#: By topic.
TABLES: Mapping[str, MethodTable] = {table.topic: table for table in (AGENT_API, SCHEDULER_API)}
