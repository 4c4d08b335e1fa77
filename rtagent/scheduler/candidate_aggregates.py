"""Aggregates of which Placement's candidates must, or must not, be members. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rtagent.model.aggregate import Aggregate
from rtagent.model.request_spec import Destination, RequestSpec
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.options import SchedulerOptions

#: The beginning of the keys of metadata that reserve an aggregate for a project.
TENANT = "filter_tenant_id"
#: The beginning of the keys of metadata that isolate an aggregate.
TRAIT = "trait:"


def member_of(
    spec: RequestSpec,
    options: SchedulerOptions,
    aggregates: Iterable[Aggregate],
    required_traits: frozenset[str],
) -> Iterator[tuple[str, str]]:
    """Yield the ``member_of`` parameters of the query for a request.

    :param required_traits: of the flavor and the image.
    :raises NoValidHost: the project may use no aggregate.
    """
    known, destination = tuple(aggregates), spec.requested_destination or Destination()
    for each in destination.aggregates:
        yield "member_of", _any_of(each.split(","))
    if options.query_placement_for_availability_zone and spec.availability_zone:
        zone = (each.uuid for each in known if each.availability_zone == spec.availability_zone)
        yield from _required(zone)
    if options.limit_tenants_to_placement_aggregate:
        yield from _required(_reserved(spec, options, known))
    forbidden = list(destination.forbidden_aggregates)
    if options.enable_isolated_aggregate_filtering:
        forbidden += (each.uuid for each in known if not _traits(each) <= required_traits)
    if forbidden:
        yield "member_of", f"!{_any_of(forbidden)}"


def _required(uuids: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield nothing if there are no such aggregates: then hosts are not limited, as in Nova."""
    found = list(uuids)
    if found:
        yield "member_of", _any_of(found)


def _reserved(
    spec: RequestSpec, options: SchedulerOptions, aggregates: Sequence[Aggregate]
) -> list[str]:
    """Return the aggregates that are reserved for the project."""
    found = [
        each.uuid
        for each in aggregates
        if any(k.startswith(TENANT) and v == spec.project_id for k, v in each.metadata.items())
    ]
    if not found and options.placement_aggregate_required_for_tenants:
        raise NoValidHost(
            hosts=0,
            refused={},
            nearest=None,
            sentence=f"no aggregate is reserved for project {spec.project_id}, which [scheduler]"
            " placement_aggregate_required_for_tenants requires",
        )
    return found


def _traits(aggregate: Aggregate) -> frozenset[str]:
    """Return the traits that a request must require to use an aggregate."""
    return frozenset(
        key.removeprefix(TRAIT)
        for key, value in aggregate.metadata.items()
        if key.startswith(TRAIT) and value == "required"
    )


def _any_of(uuids: Iterable[str]) -> str:
    return f"in:{','.join(sorted(set(uuids)))}"
