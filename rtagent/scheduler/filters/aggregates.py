"""Filters by the metadata of the aggregates that a host is in."""

from rtagent.scheduler.extra_spec_rules import Rule, extra_spec_rule
from rtagent.scheduler.filter import Check, Filter, Rejection, Request
from rtagent.scheduler.host_state import HostState

#: Keys that begin with this have uuids of projects, because one value is too short for many.
_PREFIX = "filter_tenant_id"
_SCOPE = "aggregate_instance_extra_specs"
#: Key of the metadata, requirement as it was written, rule.
_Wanted = tuple[str, str, Rule]


def values_of(host: HostState, key: str) -> list[str]:
    """Return the values of a key, each of which may be a list with commas, sorted."""
    found = {
        value.strip()
        for aggregate in host.aggregates
        if key in aggregate.metadata
        for value in aggregate.metadata[key].split(",")
    }
    return sorted(found)


def limit_of(host: HostState, key: str, default: int) -> int | Rejection:
    """Return the smallest of the whole numbers of a key, or the default without one.

    A rejection: a value is not a whole number, so that it is unknown what the operator allows.
    """
    least, odd = None, []
    for aggregate in host.aggregates:
        written = aggregate.metadata.get(key)
        if written is None:
            continue
        try:
            limit = int(written)
        except ValueError:
            odd.append(aggregate.name)
        else:
            least = limit if least is None else min(least, limit)
    if odd:
        return Rejection(f"{key} of its aggregate {', '.join(sorted(odd))} is not a whole number")
    return default if least is None else least


class AggregateMultiTenancyIsolation(Filter):
    """Refuse a host whose aggregates are for other tenants. A host without such aggregates passes.

    An aggregate is for the projects of all its keys that begin with ``filter_tenant_id``.
    """

    cost = 1

    def prepare(self, request: Request) -> Check | None:
        """Judge every request."""
        project = request.spec.project_id

        def check(host: HostState) -> Rejection | None:
            if not host.aggregates:
                return None
            keys = {key for each in host.aggregates for key in each.metadata}
            isolated = [key for key in keys if key.startswith(_PREFIX)]
            if not isolated or any(project in values_of(host, key) for key in isolated):
                return None
            return Rejection(f"its aggregates are for other tenants than {project or 'none'}")

        return check


class AggregateImagePropertiesIsolation(Filter):
    """Refuse a host whose aggregates have other values for a property of the image.

    A host whose aggregates do not have the property as a key passes.
    """

    cost = 1

    def prepare(self, request: Request) -> Check | None:
        """Judge images with properties, or only with those in the namespace of the option."""
        namespace = self.options.aggregate_image_properties_isolation_namespace
        separator = self.options.aggregate_image_properties_isolation_separator
        prefix = f"{namespace}{separator}" if namespace else ""
        properties = {
            name: value
            for name, value in request.spec.image.properties.items()
            if value and name.startswith(prefix)
        }
        return (lambda host: _judge_image(host, properties)) if properties else None


def _judge_image(host: HostState, properties: dict[str, str]) -> Rejection | None:
    if not host.aggregates:
        return None
    for name, value in properties.items():
        values = values_of(host, name)
        if values and value not in values:
            shown = ", ".join(values)
            return Rejection(f"its aggregates are for {name} = {shown}, and the image has {value}")
    return None


class AggregateTypeAffinityFilter(Filter):
    """Refuse a host whose aggregates name other flavors as ``instance_type``."""

    cost = 1

    def prepare(self, request: Request) -> Check | None:
        """Judge every request."""
        flavor = request.spec.flavor.name

        def check(host: HostState) -> Rejection | None:
            if not host.aggregates:
                return None
            flavors = values_of(host, "instance_type")
            if not flavors or flavor in flavors:
                return None
            return Rejection(f"its aggregates are for the flavors {', '.join(flavors)}")

        return check


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
        return (lambda host: _judge_specs(host, wanted)) if wanted else None


def _judge_specs(host: HostState, wanted: list[_Wanted]) -> Rejection | None:
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
