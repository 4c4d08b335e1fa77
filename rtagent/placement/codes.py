"""The codes by which Placement tells one refusal from another (``errors[0].code``)."""

from __future__ import annotations

CONCURRENT_UPDATE = "placement.concurrent_update"
DUPLICATE_NAME = "placement.duplicate_name"
INVENTORY_IN_USE = "placement.inventory.inuse"
PROVIDER_IN_USE = "placement.resource_provider.inuse"
#: Of refusals without a code of their own.
UNDEFINED = "placement.undefined_code"
