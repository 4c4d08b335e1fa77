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
    """One assigned resource, as a claim records it.

    :ivar provider: the uuid of the resource provider that has it; None: its record was damaged, or
        made by an earlier release.
    :ivar parent_addr: the PCI address of the parent device; None: the host itself has it.
    """

    resource_class: str
    identifier: str
    provider: str | None = None
    parent_addr: str | None = None
