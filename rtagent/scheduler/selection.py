"""Selection: the host that was selected for one instance, and its alternates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.model.base import Value
from rtagent.model.request import Allocations, Limits, ProviderMapping


class Selection(Value, frozen=True, kw_only=True):
    """A host for one instance.

    With Placement, the scheduler has written the allocations of a selected host for the instance.
    Those of an alternate are the caller's to write. Before a resize or a migration, the caller
    moves what the instance has at its source to the migration; an evacuation adds to it.

    :ivar provider_uuid: the node's uuid, which its root provider has, too.
    :ivar operation_id: the claim must be made with this operation id, so that the scheduler
        recognises it. Each alternate has its own.
    :ivar limits: what to pass to the claim.
    :ivar allocation_request: Placement's candidate, to be written for an alternate; None: without
        Placement. :ivar allocation_request_version: its microversion.
    :ivar allocations: and :ivar provider_mapping: for the claim; those that the scheduler wrote, or
        would write; None: without Placement.
    """

    host: str
    nodename: str
    provider_uuid: str
    operation_id: str
    limits: Limits = Limits()
    allocation_request: Mapping[str, Any] | None = None
    allocation_request_version: str | None = None
    allocations: Allocations | None = None
    provider_mapping: ProviderMapping = {}


class Selections(Value, frozen=True, kw_only=True):
    """:ivar selected: assumed there. :ivar alternates: hosts to try next, best first."""

    instance_uuid: str
    selected: Selection
    alternates: tuple[Selection, ...] = ()
