"""rtagent policy: document and show the rules that decide who may call what."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from textwrap import wrap

from oslo_policy.policy import DocumentedRuleDefault, RuleDefault

from rtagent.cmd.base import List, Row, Rows, Text
from rtagent.rpc.policies import default_rules
from rtagent.service.trust import effective_rules

#: Characters of a line of the sample, without the comment sign.
WIDTH = 98
#: The source of a rule that no file has.
DEFAULT = "default"


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


def _sample() -> Iterator[str]:
    for rule in default_rules():
        yield from (f"# {line}" for line in _meaning(rule))
        yield f'#"{rule.name}": "{rule.check_str}"'
        yield ""


def _meaning(rule: RuleDefault) -> Iterator[str]:
    """Yield the lines of a comment."""
    yield from wrap(rule.description or "", WIDTH)
    if isinstance(rule, DocumentedRuleDefault):
        yield from (f"{each['method']} {each['path']}" for each in rule.operations)
