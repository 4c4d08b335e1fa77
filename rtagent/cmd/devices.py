"""Devices and the like, as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cliff.columns import FormattableColumn

_Documents = Sequence[Mapping[str, Any]]


class Devices(FormattableColumn[_Documents]):
    """A line for each device that a claim holds."""

    def human_readable(self) -> str:
        return "\n".join(", ".join(_device(device)) for device in self._value)


class Resources(FormattableColumn[_Documents]):
    """A line for each specific resource that a claim holds."""

    def human_readable(self) -> str:
        return "\n".join(f"{each['resource_class']} {each['identifier']}" for each in self._value)


class Requests(FormattableColumn[_Documents]):
    """A line for each request; what says nothing is left out."""

    def human_readable(self) -> str:
        return "\n".join(
            " ".join(f"{name}={value}" for name, value in each.items() if value not in (None, []))
            for each in self._value
        )


class Pools(FormattableColumn[_Documents]):
    """A line for each pool."""

    def human_readable(self) -> str:
        return "\n".join(", ".join(_pool(pool)) for pool in self._value)


class Numbers(FormattableColumn[Mapping[str, int]]):
    """``name=number`` a line; a person sees no zeros."""

    def human_readable(self) -> str:
        return "\n".join(f"{name}={number}" for name, number in self._value.items() if number)


def _device(device: Mapping[str, Any]) -> Iterator[str]:
    yield f"{device['address']} {_make(device)} {device['dev_type']}"
    yield from _node(device)
    yield f"for {device['alias_name'] or device['requester_id'] or device['request_id']}"


def _pool(pool: Mapping[str, Any]) -> Iterator[str]:
    tags = {**pool["tags"]}
    yield f"{pool['count']} of {_make(pool)} {tags.pop('dev_type')}"
    yield from _node(pool)
    yield from (f"{name}={value}" for name, value in tags.items() if value != "false")


def _make(device: Mapping[str, Any]) -> str:
    return f"{device['vendor_id']}:{device['product_id']}"


def _node(device: Mapping[str, Any]) -> Iterator[str]:
    if device["numa_node"] is not None:
        yield f"NUMA node {device['numa_node']}"
