"""ComputeCapabilitiesFilter: extra specs about the host itself."""

from functools import partial
from typing import Any

import msgspec

from rtagent.errors import InvalidRequest
from rtagent.model.base import Value
from rtagent.scheduler.extra_spec_rules import Rule, extra_spec_rule
from rtagent.scheduler.filter import Check, Filter, Lasting, Rejection, Request
from rtagent.scheduler.host_state import FIELDS, FIXED, HostState, field

_decode = msgspec.json.Decoder().decode
#: An extra spec that stands for another one of this filter.
_ADDRESS_BITS = "hw:maxphysaddr_bits"


class _Rule(Value, frozen=True):
    """:ivar scoped: False: the key has no ``capabilities:``, so that it is about this filter only
    if the host has such a field.
    """

    path: tuple[str, ...]
    written: str
    satisfied: Rule
    scoped: bool


class ComputeCapabilitiesFilter(Filter):
    """Refuse a host whose fields or statistics do not satisfy the flavor's extra specs."""

    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge requests with an extra spec that has the scope ``capabilities`` or none.

        :raises InvalidRequest: an operator has no value, or one that it cannot use.
        """
        found = (_rule(*each) for each in request.spec.flavor.extra_specs.items())
        rules = [rule for rule in found if rule is not None]
        if not rules:
            return None
        check: Check = partial(_judge, rules)
        return Lasting(check) if all(map(_lasts, rules)) else check


def _rule(key: str, written: str) -> _Rule | None:
    if key == _ADDRESS_BITS:
        rule = extra_spec_rule(key, f">= {written}")
        return _Rule(("cpu_info", "maxphysaddr", "bits"), f">= {written}", rule, True)
    scope, *path = key.split(":")
    if path and scope != "capabilities":
        return None
    try:
        rule = extra_spec_rule(key, written)
    except InvalidRequest:
        if path or scope in FIELDS:
            raise
        rule = _never  # it may be meant for something else: only a host with such a statistic cares
    return _Rule(tuple(path) or (scope,), written, rule, bool(path))


def _never(_value: str) -> bool:
    return False


def _lasts(rule: _Rule) -> bool:
    """Return whether no build changes what a rule reads: statistics count guests."""
    name = rule.path[0]
    return name in FIXED if name in FIELDS else not name.startswith(("num_", "io_"))


def _judge(rules: list[_Rule], host: HostState) -> Rejection | None:
    for rule in rules:
        name = ":".join(rule.path)
        value = _value(host, rule.path)
        if value is None:
            if rule.scoped:
                return Rejection(f"{name} has to be {rule.written}, and the host has none")
            continue
        try:
            satisfied = rule.satisfied(_text(value))
        except ValueError:
            return Rejection(f"{name} has to be {rule.written}, and is not a number")
        if not satisfied:
            return Rejection(f"{name} has to be {rule.written}, and is {_text(value)}")
    return None


def _value(host: HostState, path: tuple[str, ...]) -> Any:
    value = field(host, path) if path[0] in FIELDS else None
    if value is None:
        return host.stats.get(path[0]) if len(path) == 1 else None
    return value


def _text(value: Any) -> str:
    """The text form that Nova compares: of Python, with lists."""
    return str(_decode(msgspec.json.encode(value)))
