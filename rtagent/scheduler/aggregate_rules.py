"""The rules of changes to host aggregates. Pure."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from rtagent.errors import InvalidRequest
from rtagent.model.node import Aggregate
from rtagent.scheduler import errors

#: The key of the metadata that names the availability zone.
ZONE = "availability_zone"


def find(aggregates: Iterable[Aggregate], wanted: str) -> Aggregate:
    """Return the aggregate with this uuid, or else with this name.

    :raises AggregateNotFound:
    """
    known = tuple(aggregates)
    named = [each for name in ("uuid", "name") for each in known if getattr(each, name) == wanted]
    if not named:
        raise errors.AggregateNotFound(aggregate=wanted)
    return named[0]


def check(changed: Aggregate, aggregates: Iterable[Aggregate]) -> None:
    """Check a new or changed aggregate against all others.

    :raises InvalidRequest: its name or its availability zone is invalid.
    :raises AggregateNameExists: ZoneConflict:
    """
    _check_text("name", changed.name)
    zone = changed.availability_zone
    if zone is not None:
        _check_text(f"metadata.{ZONE}", zone)
        if ":" in zone:  # it separates zone, host and node in a request
            raise InvalidRequest.at("aggregate", f"metadata.{ZONE}", "must not have a colon")
    for other in aggregates:
        if other.uuid == changed.uuid:
            continue
        if other.name == changed.name:
            raise errors.AggregateNameExists(name=changed.name, uuid=other.uuid)
        _check_zones(changed, other)


def with_metadata(
    aggregate: Aggregate, metadata: Mapping[str, str | None], name: str | None = None
) -> Aggregate:
    """Return the aggregate with another name and other metadata.

    :param metadata: None removes a key. Other keys stay. :param name: None: it stays.
    """
    after = {**aggregate.metadata, **metadata}
    kept = {key: value for key, value in after.items() if value is not None}
    return replace(aggregate, metadata=kept, name=aggregate.name if name is None else name)


def with_host(aggregate: Aggregate, host: str) -> Aggregate:
    """Return the aggregate with one more host. :raises AggregateHostExists: InvalidRequest:"""
    _check_text("host", host)
    if host in aggregate.hosts:
        raise errors.AggregateHostExists(aggregate=aggregate.name, host=host)
    return replace(aggregate, hosts=tuple(sorted((*aggregate.hosts, host))))


def without_host(aggregate: Aggregate, host: str) -> Aggregate:
    """Return the aggregate without a host. :raises AggregateHostNotFound:"""
    if host not in aggregate.hosts:
        raise errors.AggregateHostNotFound(aggregate=aggregate.name, host=host)
    return replace(aggregate, hosts=tuple(each for each in aggregate.hosts if each != host))


def check_empty(aggregate: Aggregate) -> None:
    """Check that an aggregate may be deleted. :raises AggregateNotEmpty:"""
    if aggregate.hosts:
        raise errors.AggregateNotEmpty(aggregate=aggregate.name, hosts=", ".join(aggregate.hosts))


def _check_zones(changed: Aggregate, other: Aggregate) -> None:
    zone, other_zone = changed.availability_zone, other.availability_zone
    if None in (zone, other_zone) or zone == other_zone:
        return
    for host in changed.hosts:
        if host in other.hosts:
            raise errors.ZoneConflict(host=host, zone=zone, other_zone=other_zone, other=other.name)


def _check_text(path: str, text: str) -> None:
    if not text.strip() or text != text.strip():
        rule = "must not be empty, nor begin or end with a space"
        raise InvalidRequest.at("aggregate", path, rule)
