"""The operator's policy for Placement."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum

from rtagent.model.base import Value


class ManageAllocations(StrEnum):
    """Whether the agent writes the allocations of its claims to Placement.

    :cvar NO: others do. :cvar YES: it writes them after the answer to the call.
    :cvar STRICT: it answers a call that creates a claim after the allocation was written.
    """

    NO = "no"
    YES = "yes"
    STRICT = "strict"


class AdditionalInventory(Value, frozen=True, kw_only=True):
    """An inventory that a provider file adds to one of this node's providers.

    :ivar suffix: of the provider, see `provider_names`; "" is the root.
    """

    suffix: str
    resource_class: str
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: Decimal


class PlacementPolicy(Value, frozen=True, kw_only=True):
    """What the operator has decided about Placement.

    :ivar adopted: the uuids of child providers that another publisher had made, by suffix.
    :ivar disk_provider: the uuid of the provider that shares its disk with this host: allocations
        of DISK_GB are on it, and the root has no DISK_GB. None: the disk is the host's own.
    :ivar additional: inventories that provider files add.
    :ivar additional_traits: traits that provider files add, by the suffix of the
        provider.
    :ivar withheld_traits: traits of the hypervisor that are not reported.
    :ivar additional_by: the provider file that describes a provider, by its suffix.
    """

    manage_allocations: ManageAllocations = ManageAllocations.NO
    adopted: Mapping[str, str] = {}
    disk_provider: str | None = None
    additional: tuple[AdditionalInventory, ...] = ()
    additional_traits: Mapping[str, frozenset[str]] = {}
    withheld_traits: frozenset[str] = frozenset()
    additional_by: Mapping[str, str] = {}
