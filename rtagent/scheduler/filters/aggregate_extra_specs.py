"""AggregateInstanceExtraSpecsFilter: extra specs about the metadata of the host's aggregates."""

from __future__ import annotations

from rtagent.scheduler.aggregate_values import values_of
from rtagent.scheduler.extra_spec_rules import Rule, extra_spec_rule
from rtagent.scheduler.filter import Check, Filter, Rejection
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request

_SCOPE = "aggregate_instance_extra_specs"

#: Key of the metadata, requirement as it was written, rule.
_Wanted = tuple[str, str, Rule]


class AggregateInstanceExtraSpecsFilter(Filter):
    """Refuse a host whose aggregates do not satisfy the flavor's extra specs.

    Of several values of a key, one has to satisfy the rule. If the rule compares numbers, all of
    them must be numbers.
    """

    cost = 1

    def prepare(self, request: Request) -> Check | None:
        """Judge requests with an extra spec that has this filter's scope or none.

        :raises InvalidRequest: an operator has no value, or one that it cannot use.
        """
        wanted: list[_Wanted] = []
        for key, written in request.spec.flavor.extra_specs.items():
            scope, separator, rest = key.partition(":")
            if not separator or scope == _SCOPE:
                rule = extra_spec_rule(key, written)
                wanted.append((rest if separator else key, written, rule))
        return (lambda host: _judge(host, wanted)) if wanted else None


def _judge(host: HostState, wanted: list[_Wanted]) -> Rejection | None:
    for key, written, rule in wanted:
        values = values_of(host, key)
        if not values:
            return Rejection(f"{key} has to be {written}, and no aggregate of the host has it")
        try:
            verdicts = [rule(value) for value in values]
        except ValueError:
            shown = ", ".join(values)
            return Rejection(f"{key} has to be {written}, and a value is no number: {shown}")
        if not any(verdicts):
            shown = ", ".join(values)
            return Rejection(f"{key} has to be {written}, and the aggregates have {shown}")
    return None
