"""Specific resources: things of a class that are told apart, and held one by one."""

from __future__ import annotations

from rtagent.model.base import Value


class SpecificInventory(Value, frozen=True, kw_only=True):
    """What one provider has of one class.

    :ivar provider: the address of the device that it is a part of, or "" for the host itself.
    :ivar identifiers: each unique on the host, in the order in which they are given out.
    """

    provider: str
    resource_class: str
    identifiers: tuple[str, ...]


class SpecificUnit(Value, frozen=True, kw_only=True):
    """One of them, as a claim holds it."""

    provider: str
    resource_class: str
    identifier: str


class EnabledType(Value, frozen=True, kw_only=True):
    """A type of mediated devices that the operator offers.

    :ivar addresses: of the devices on which it is enabled; None: on all that have it."""

    type: str
    addresses: frozenset[str] | None
    resource_class: str
    max_instances: int | None
