"""Assigned resources: units of a resource class that are identified and claimed one by one.

Examples are vPMEM namespaces and mediated devices (Nova's ``Resource``).
"""

from __future__ import annotations

from rtagent.model.base import Value


class ResourceInventory(Value, frozen=True, kw_only=True):
    """The resources of one class that one provider has.

    :ivar provider: the address of the parent device, or "" for the host itself.
    :ivar identifiers: each unique on the host, in the order in which they are assigned.
    """

    provider: str
    resource_class: str
    identifiers: tuple[str, ...]


class AssignedResource(Value, frozen=True, kw_only=True):
    """One assigned resource, as a claim records it."""

    provider: str
    resource_class: str
    identifier: str
