"""The rules of both APIs: the policy that is in force unless an operator overrides it."""

import functools
from collections.abc import Iterator, Sequence

from oslo_config import cfg
from oslo_policy import policy

from rtagent.rpc import topics
from rtagent.rpc.methods import TABLES
from rtagent.rpc.roles import ENOUGH, MEANINGS
from rtagent.rpc.trust.policy import rule_name

#: By topic: what the names of its rules begin with.
PREFIXES = {topics.AGENT: "rtagent", topics.SCHEDULER: "rtagent_scheduler"}


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
