"""Nova's host statistics, counted from the claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rtagent.model.claim import Claim

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


def keys(claim: Claim) -> tuple[str, ...]:
    """Return the counters that a claim's instance increments by one."""
    facts = claim.instance
    return (
        "num_instances",
        f"num_vm_{facts.vm_state}",
        f"num_task_{facts.task_state}",
        f"num_os_type_{facts.os_type}",
        f"num_proj_{facts.project_id}",
    )


def count(owners: Iterable[Sequence[Claim]]) -> dict[str, int]:
    """Count from zero. An instance counts once, for any number of claims.

    :param owners: the live claims of each owner. Their instance facts are equal.
    """
    counters: dict[str, int] = {}
    for claims in owners:
        for key in keys(claims[0]) if claims else ():
            counters[key] = counters.get(key, 0) + 1
    return counters


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
