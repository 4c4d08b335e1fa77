"""Assigned resources: units of a resource class that are identified and claimed one by one.

Examples are vPMEM namespaces and mediated devices (Nova's ``Resource``).
"""

from __future__ import annotations

from rtagent.model.base import Positive, Value


class PmemNamespace(Value, frozen=True, kw_only=True):
    """A persistent memory namespace of the host, in mode ``devdax``.

    :ivar path: of its character device, for example ``/dev/dax0.0``. It may be another one after
        the host was started again.
    :ivar size_kb: KiB. :ivar align_kb: KiB.
    """

    name: str
    path: str
    size_kb: int
    align_kb: int


class ResourceInventory(Value, frozen=True, kw_only=True):
    """The resources of one class that one provider has.

    :ivar provider: the address of the parent device, or "" for the host itself.
    :ivar identifiers: each unique on the host, in the order in which they are assigned.
    :ivar namespaces: the namespaces among them, as the host has them.
    """

    provider: str
    resource_class: str
    identifiers: tuple[str, ...]
    namespaces: tuple[PmemNamespace, ...] = ()


class AssignedQuantity(Value, frozen=True, kw_only=True):
    """An quantity of a resource class that a provider file offers, as a claim records
    it.

    :ivar provider: the uuid of the resource provider. :ivar suffix: of its name, see
        `provider_names`; "" is the root.
    """

    provider: str
    suffix: str
    resource_class: str
    quantity: Positive

    def unit_of(self, claim_uuid: str) -> str:
        """Return the name of the unit that records the quantity of a claim."""
        parts = (claim_uuid, str(self.quantity), self.provider, self.resource_class, self.suffix)
        return "/".join(parts)


def quantity_of_unit(unit: str) -> AssignedQuantity | None:
    """Return the quantity that a unit records; None: it records none."""
    parts = unit.split("/", 4)
    if len(parts) < 5 or not parts[1].isdecimal():
        return None
    _, quantity, provider, resource_class, suffix = parts
    return AssignedQuantity(
        provider=provider, suffix=suffix, resource_class=resource_class, quantity=int(quantity)
    )


class AssignedResource(Value, frozen=True, kw_only=True):
    """One assigned resource, as a claim records it.

    :ivar provider: the uuid of the resource provider that has it; None: its record was damaged, or
        made by an earlier release.
    :ivar parent_addr: the PCI address of the parent device; None: the host itself has it.
    :ivar namespace: for persistent memory, the namespace as it was when it was assigned.
    """

    resource_class: str
    identifier: str
    provider: str | None = None
    parent_addr: str | None = None
    namespace: PmemNamespace | None = None
