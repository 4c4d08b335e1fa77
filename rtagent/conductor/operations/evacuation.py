"""The operation evacuation, and clear-evacuated, which ends it at the host that has failed."""

from __future__ import annotations

import uuid
from uuid import UUID

from msgspec.structs import replace

from rtagent.conductor.engine import Step, Table
from rtagent.conductor.operations import allocations
from rtagent.conductor.operations.hosts import (
    allocate,
    cleanup,
    define,
    prepare,
    select,
    start,
    undefine,
    unselect,
)
from rtagent.conductor.operations.moves import (
    begin,
    claim_move,
    drop_at_destination,
    migration_of,
    move_arguments,
    source_place,
)
from rtagent.conductor.operations.resize import unmoved
from rtagent.conductor.progress import Progress
from rtagent.conductor.run import Run
from rtagent.model.server import ACTIVE, Server, ServerOperation

CLEARING = "clear-evacuated"


def begin_evacuation(run: Run) -> None:
    """Make the migration, and note what the server has allocated at its source."""
    begin(run)
    if run.progress.allocations is None:
        run.learn(allocations=allocations.of(run))


def arrive(run: Run) -> None:
    """Activate the claim, before the guest may start. `ClaimExpired` prevents the start."""
    dest = run.progress.dest
    run.learn(claim=run.agent(dest, "finish_evacuation", **move_arguments(run)))


def start_if_it_ran(run: Run) -> None:
    """Start the guest, if it should run."""
    if run.progress.was == ACTIVE:
        start(run)


def free_source(run: Run) -> None:
    """Leave the server the allocations at the destination only."""
    allocate(run)


def report(run: Run) -> None:
    """Report the state. A separate operation clears the failed host when it is back."""
    run.report(run.progress.dest, run.progress.was, None)
    run.owed.append(_clearing(run))


def _clearing(run: Run) -> ServerOperation:
    operation, progress = run.operation, run.progress
    owed = Progress(
        spec=progress.spec,
        was=progress.was,
        source=progress.source,
        migration=progress.migration,
    )
    return ServerOperation(
        uuid=str(uuid.uuid5(UUID(operation.uuid), CLEARING)),
        server_uuid=operation.server_uuid,
        kind=CLEARING,
        step=CLEAR_EVACUATED.steps[0].name,
        created_at=operation.updated_at,
        updated_at=operation.updated_at,
        progress=owed.document(),
    )


def _done(run: Run) -> Server:
    return replace(run.server, task_state=None, place=run.progress.dest)


EVACUATION = Table(
    kind="evacuation",
    steps=(
        Step(name="begin", do=begin_evacuation),
        Step(name="select", do=select, undo=unselect),
        Step(name="claim", do=claim_move, undo=drop_at_destination),
        Step(name="prepare", do=prepare, undo=cleanup),
        Step(name="define", do=define, undo=undefine),
        Step(name="arrive", do=arrive, final=True),
        Step(name="start", do=start_if_it_ran),
        Step(name="allocations", do=free_source),
        Step(name="report", do=report),
    ),
    done=_done,
    failed=unmoved,
)


def _undefine_evacuated(run: Run) -> None:
    """Remove the guest from the host that was evacuated. It runs elsewhere."""
    run.undefine(source_place(run))


def _cleanup_evacuated(run: Run) -> None:
    """Remove its disks there."""
    run.hook("cleanup", source_place(run).host)


def _drop_evacuated(run: Run) -> None:
    """Release its claim there, because the guest runs on another host."""
    assert migration_of(run).migration_type == "evacuation"
    run.end(source_place(run), "drop_move_claim_at_source", **move_arguments(run))


CLEAR_EVACUATED = Table(
    kind=CLEARING,
    steps=(
        Step(name="undefine", do=_undefine_evacuated),
        Step(name="cleanup", do=_cleanup_evacuated),
        Step(name="drop", do=_drop_evacuated),
    ),
    done=unmoved,
    failed=unmoved,
    only_forward=True,
    alone=True,
)
