"""Nova's host statistics, counted from the claims of the instances that are on the host."""

from collections.abc import Mapping, Sequence

from rtagent.model.claim import ACTIVE, ATTACH, BUILDING, INCOMING, LIVE_MIGRATION, OUTGOING, Claim
from rtagent.model.migration import RETURNED, SUCCEEDED, Migration

#: Counters of instances that load the host's disks (Nova's ``Stats.io_workload``).
IO_HEAVY = frozenset(
    {
        "num_vm_building",
        "num_task_resize_migrating",
        "num_task_rebuilding",
        "num_task_resize_prep",
        "num_task_image_snapshot",
        "num_task_image_backup",
        "num_task_rescuing",
        "num_task_unshelving",
    }
)


def keys(claims: Sequence[Claim], migrations: Mapping[str, Migration]) -> tuple[str, ...]:
    """Return the counters that an owner's instance increments by one; none if the instance is on
    another host.

    :param claims: the live claims of the owner. Their instance facts are equal.
    :param migrations: the node's records of moves, by uuid.
    """
    if not is_here(claims, migrations):
        return ()
    facts = claims[0].instance
    return (
        "num_instances",
        f"num_vm_{facts.vm_state}",
        f"num_task_{facts.task_state}",
        f"num_os_type_{facts.os_type}",
        f"num_proj_{facts.project_id}",
    )


def is_here(claims: Sequence[Claim], migrations: Mapping[str, Migration]) -> bool:
    """Return whether the instance is on this host, rather than on its way to it or gone from it.

    A guest is at its destination from its arrival on (Nova's ``instance.host``). It leaves its
    source when the move begins, or at the end of a live migration. A guest that is resized on its
    host stays there.

    :param claims: and `migrations`: as for `keys`.
    """
    mains = [claim for claim in claims if claim.kind != ATTACH]
    if any(claim.state in (BUILDING, ACTIVE) for claim in mains):
        return True
    expected = {claim.migration_uuid for claim in mains if claim.state == INCOMING}
    moves = [claim.migration_uuid or "" for claim in mains if claim.state == OUTGOING]
    return any(move in expected or _stays(migrations.get(move)) for move in moves)


def _stays(record: Migration | None) -> bool:
    """Return whether a guest is at its source, although its claim there is outgoing."""
    if record is None:
        return False
    live = record.migration_type == LIVE_MIGRATION and record.status not in SUCCEEDED
    return live or record.status in RETURNED


def io_workload(counters: Mapping[str, int]) -> int:
    """Return the number of instances that load the disks."""
    return sum(counters.get(key, 0) for key in IO_HEAVY)


def current_workload(counters: Mapping[str, int]) -> int:
    """Return the number of instances with a running task."""
    return sum(
        number
        for key, number in counters.items()
        if key.startswith("num_task_") and key != "num_task_None"
    )
