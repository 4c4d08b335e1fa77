"""Differences between the allocations of a claim and what the claim needs."""

from __future__ import annotations

from collections.abc import Iterable

from rtagent.errors import AllocationMismatch
from rtagent.model.base import Value

NOT_OURS = "the provider is not one of this node, or not one of these devices"
NOT_THERE = "the provider does not have that class"
NOT_NEEDED = "the quantities must be equal"
NOT_ALLOCATED = "provider_mapping names the provider, and the allocations do not"


class Mismatch(Value, frozen=True, kw_only=True):
    """One difference.

    :ivar provider: its uuid; None: all providers of the node together.
    """

    resource_class: str
    allocated: int
    needed: int
    rule: str
    provider: str | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the difference as a document, for the error."""
        where = f"provider {self.provider}" if self.provider else "this node's providers"
        return {
            "provider": self.provider,
            "resource_class": self.resource_class,
            "allocated": self.allocated,
            "needed": self.needed,
            "message": f"{self.resource_class or 'any class'} of {where}: {self.allocated}"
            f" allocated, {self.needed} needed: {self.rule}",
        }


def check(mismatches: Iterable[Mismatch]) -> None:
    """Raise every difference.

    :raises AllocationMismatch: there is one.
    """
    listed = [each.as_dict() for each in mismatches]
    if listed:
        raise AllocationMismatch(mismatches=listed)
