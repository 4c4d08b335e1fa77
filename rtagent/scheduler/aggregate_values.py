"""The values that the aggregates of a host have for a key, in an order that never varies."""

from __future__ import annotations

from rtagent.scheduler.filter import Rejection
from rtagent.scheduler.host_state import HostState


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
