"""The client's part for moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oslo_context.context import RequestContext

from rtagent.rpc.calls import Calls

Document = Any  #: JSON primitives, or a value of `rtagent.model`.


def source_of(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The ``source`` of a move's claim: what the guest has where it comes from, as its claim there
    says that `get_claim` answers."""
    topology, devices = claim["numa_topology"] or {}, dict[str, list[str]]()
    for device in claim["pci"]:
        purpose = device["alias_name"] or device["request_id"]
        devices.setdefault(purpose, []).append(device["address"])
    sizes = [cell["pagesize"] for cell in topology.get("cells", ())]
    return {"page_sizes": sizes, "devices": devices}


class MoveCalls(Calls):
    """Each side of a move is told what concerns it, in any order, as often as it takes.

    ``source`` is what `source_of` makes of the claim that the guest comes from: with it, the new
    claim tells which devices take the place of which, and a live migration keeps its page sizes.
    """

    def resize_claim(
        self,
        context: RequestContext,
        instance: Document,
        flavor: Document,
        migration: Document = None,
        *,
        node: str | None = None,
        image: Document = None,
        limits: Document = None,
        allocations: Document = None,
        tag: str | None = None,
        extra_resource: Document = None,
        source: Document = None,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Hold resources for a resize or a cold migration to this host, or on it; the claim.

        :raises ComputeResourcesUnavailable: with every reason. :raises ClaimConflict: another move
            is under way here. :raises ClaimExpired: the operation's claim has ended.
        """
        return self._change(
            context,
            "resize_claim",
            operation_id,
            timeout,
            instance=instance,
            flavor=flavor,
            migration=migration,
            node=node,
            image=image,
            limits=limits,
            allocations=allocations,
            tag=tag,
            extra_resource=extra_resource,
            source=source,
        )

    def live_migration_claim(
        self,
        context: RequestContext,
        instance: Document,
        migration: Document,
        *,
        node: str | None = None,
        limits: Document = None,
        allocations: Document = None,
        tag: str | None = None,
        extra_resource: Document = None,
        source: Document = None,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Hold resources for a live migration to this host; the claim. Errors: as of a resize."""
        return self._change(
            context,
            "live_migration_claim",
            operation_id,
            timeout,
            instance=instance,
            migration=migration,
            node=node,
            limits=limits,
            allocations=allocations,
            tag=tag,
            extra_resource=extra_resource,
            source=source,
        )

    def rebuild_claim(
        self,
        context: RequestContext,
        instance: Document,
        migration: Document,
        *,
        node: str | None = None,
        image: Document = None,
        limits: Document = None,
        allocations: Document = None,
        tag: str | None = None,
        extra_resource: Document = None,
        source: Document = None,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Hold resources for an instance that is evacuated to this host; the claim. Errors: as of a
        resize."""
        return self._change(
            context,
            "rebuild_claim",
            operation_id,
            timeout,
            instance=instance,
            migration=migration,
            node=node,
            image=image,
            limits=limits,
            allocations=allocations,
            tag=tag,
            extra_resource=extra_resource,
            source=source,
        )

    def start_move_out(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration: Document,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """To the source: the guest is about to leave; its claim, held for a revert."""
        return self._move(
            context, "start_move_out", instance_uuid, migration, operation_id, timeout
        )

    def finish_move(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration: Document,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """To the destination: the guest is here; its claim.

        :raises ClaimExpired: it must not be started.
        """
        return self._move(context, "finish_move", instance_uuid, migration, operation_id, timeout)

    def finish_evacuation(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration: Document,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """To the destination: the evacuated guest is here; its claim.

        :raises ClaimExpired: it must not be started.
        """
        return self._move(
            context, "finish_evacuation", instance_uuid, migration, operation_id, timeout
        )

    def finish_revert(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration: Document,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """To the source: the guest is back; its claim.

        :raises ClaimExpired: it must not be started.
        """
        return self._move(context, "finish_revert", instance_uuid, migration, operation_id, timeout)

    def drop_move_claim_at_source(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration: Document,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Confirm: what the source held is free with the answer."""
        self._move(
            context, "drop_move_claim_at_source", instance_uuid, migration, operation_id, timeout
        )

    def drop_move_claim_at_dest(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration: Document,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Revert: what the destination held is free with the answer."""
        self._move(
            context, "drop_move_claim_at_dest", instance_uuid, migration, operation_id, timeout
        )

    def drop_move_claim(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration: Document,
        *,
        operation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """To either side: the move has failed."""
        self._move(context, "drop_move_claim", instance_uuid, migration, operation_id, timeout)

    def _move(
        self,
        context: RequestContext,
        method: str,
        instance_uuid: str,
        migration: Document,
        operation_id: str | None,
        timeout: float | None,
    ) -> Any:
        return self._change(
            context,
            method,
            operation_id,
            timeout,
            instance_uuid=instance_uuid,
            migration=migration,
        )
