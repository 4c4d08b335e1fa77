"""Filters that limit how many instances, or how many of them with I/O, a host has."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.scheduler.aggregate_values import limit_of
from rtagent.scheduler.filter import Check, Filter, Rejection
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request


class NumInstancesFilter(Filter):
    """Refuse a host with ``max_instances_per_host`` instances or more."""

    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge every request."""
        return _at_most(_instances, self.options.max_instances_per_host)


class AggregateNumInstancesFilter(Filter):
    """As NumInstancesFilter; the metadata of the host's aggregates come before the option."""

    cost = 1
    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge every request."""
        default = self.options.max_instances_per_host
        return _of_aggregates(_instances, "max_instances_per_host", default)


class IoOpsFilter(Filter):
    """Refuse a host with ``max_io_ops_per_host`` instances that do much I/O, or more."""

    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge every request."""
        return _at_most(_io_ops, self.options.max_io_ops_per_host)


class AggregateIoOpsFilter(Filter):
    """As IoOpsFilter; the metadata of the host's aggregates come before the option."""

    cost = 1
    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge every request."""
        default = self.options.max_io_ops_per_host
        return _of_aggregates(_io_ops, "max_io_ops_per_host", default)


#: A number of the host, and what it counts.
_Count = Callable[[HostState], tuple[int, str]]


def _instances(host: HostState) -> tuple[int, str]:
    return host.num_instances, "instances"


def _io_ops(host: HostState) -> tuple[int, str]:
    return host.num_io_ops, "instances that do much I/O"


def _at_most(count: _Count, limit: int) -> Check:
    def check(host: HostState) -> Rejection | None:
        number, of = count(host)
        return None if number < limit else _refused(number, of, limit)

    return check


def _of_aggregates(count: _Count, key: str, default: int) -> Check:
    def check(host: HostState) -> Rejection | None:
        limit = limit_of(host, key, default)
        if isinstance(limit, Rejection):
            return limit
        number, of = count(host)
        return None if number < limit else _refused(number, of, limit)

    return check


def _refused(number: int, of: str, limit: int) -> Rejection:
    return Rejection(f"it has {number} {of}, of {limit} at most")
