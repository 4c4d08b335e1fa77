"""Moves: the steps that they have in common (the migration, its claims, and allocations), and the
operation live-migration.
"""

import uuid
from typing import Any, cast
from uuid import UUID

import msgspec
from msgspec.structs import replace

from rtagent.conductor.engine import Step, Table
from rtagent.conductor.operations import allocations
from rtagent.conductor.operations.hosts import (
    claim_arguments,
    cleanup,
    end_claim,
    prepare,
    select,
    unselect,
)
from rtagent.conductor.run import Run
from rtagent.errors import ClaimExpired
from rtagent.model.migration import MigrationFacts, MigrationType
from rtagent.model.server import ACTIVE, Place, Server, ServerOperation
from rtagent.rpc.client import source_of

#: The method that claims resources at the destination, by type of the move.
CLAIMING = {
    "resize": "resize_claim",
    "migration": "resize_claim",
    "live-migration": "live_migration_claim",
    "evacuation": "rebuild_claim",
}


def source_place(run: Run) -> Place:
    """Return where the server was before the move."""
    source = run.progress.source
    assert source is not None
    return source


def on_same_host(run: Run) -> bool:
    """Return whether source and destination are one host."""
    return source_place(run).node_uuid == run.progress.selected.node_uuid


def begin(run: Run) -> None:
    """Make the migration. Each attempt has one of its own, because a host keeps the record of one
    that failed."""
    migration = MigrationFacts(
        uuid=migration_uuid(run.operation),
        migration_type=cast(MigrationType, run.progress.spec.purpose),
        source_compute=source_place(run).host,
    )
    run.learn(migration=migration)


def migration_uuid(operation: ServerOperation) -> str:
    """Return the uuid of the migration of an attempt, also before it is recorded."""
    return str(uuid.uuid5(UUID(operation.uuid), f"migration {operation.attempt}"))


def reserve(run: Run) -> None:
    """Make the migration, and give it the server's allocations, if the conductor writes them."""
    begin(run)
    allocations.give(run, run.server.uuid, migration_of(run).uuid)


def restore(run: Run) -> None:
    """Give the server what the migration has, instead of what it has at the destination."""
    allocations.give(run, migration_of(run).uuid, run.server.uuid)


def migration_of(run: Run) -> MigrationFacts:
    """Return the migration."""
    migration = run.progress.migration
    assert migration is not None
    return migration


def move_arguments(run: Run, of: MigrationFacts | None = None) -> dict[str, Any]:
    """Return the arguments of the calls of a move, after its claim.

    :param of: the migration. Default: the operation's own.
    """
    migration = msgspec.to_builtins(of or migration_of(run))
    return {
        "instance_uuid": run.server.uuid,
        "migration": {name: value for name, value in migration.items() if value is not None},
    }


def claim_move(run: Run) -> None:
    """Claim the resources at the destination. The claim is incoming, and leased."""
    progress, kind = run.progress, migration_of(run).migration_type
    arguments = {
        "instance": run.instance(run.server.spec, progress.was, run.server.task_state),
        "migration": move_arguments(run)["migration"],
        "source": source_of(source_place(run).claim),
        **claim_arguments(run),
    }
    if CLAIMING[kind] == "resize_claim":
        arguments["flavor"] = msgspec.to_builtins(progress.spec.flavor)
    run.learn(claim=run.agent(run.progress.selected, CLAIMING[kind], **arguments))


def drop_at_destination(run: Run) -> None:
    """End the claim at the destination: the move has failed."""
    end_claim(run, run.progress.selected, "drop_move_claim", **move_arguments(run))


def report_both(run: Run, vm_state: str, task_state: str | None) -> None:
    """Report the server's state to both sides of the move."""
    run.report(source_place(run), vm_state, task_state)
    if not on_same_host(run):
        run.report(run.progress.dest, vm_state, task_state)


def report_moving(run: Run) -> None:
    """Report that the move has begun."""
    report_both(run, run.progress.was, run.server.task_state)


def report_back(run: Run) -> None:
    """Report that the move has failed."""
    run.report(source_place(run), run.progress.was, None)


def leave(run: Run) -> None:
    """Keep the claim of the guest that leaves, for its return."""
    run.agent(source_place(run), "start_move_out", **move_arguments(run))


def stay(run: Run) -> None:
    """Activate the claim at the source again. The guest may be started after this only."""
    run.agent(source_place(run), "drop_move_claim", **move_arguments(run))


def arrive(run: Run) -> None:
    """Activate the claim at the destination. `ClaimExpired` prevents the start of the guest."""
    run.learn(claim=run.agent(run.progress.dest, "finish_move", **move_arguments(run)))


def runs(run: Run) -> bool:
    """Return whether the guest ran before the move."""
    return run.progress.was == ACTIVE


def drop_at_source(run: Run) -> None:
    """Release the claim at the source."""
    run.end(source_place(run), "drop_move_claim_at_source", **move_arguments(run))


def undefine_source(run: Run) -> None:
    """Remove the guest from the host that the server is not on any more."""
    run.undefine(source_place(run))


def cleanup_source(run: Run) -> None:
    """Remove what the hooks made at the source."""
    run.hook("cleanup", source_place(run).host)


def moved(run: Run) -> Server:
    """Return the server at the destination."""
    return replace(run.server, task_state=None, place=run.progress.dest)


def migrate(run: Run) -> None:
    """Migrate the running guest, and renew the lease during the migration.

    The loss of the lease is noticed first. Once the guest is at the destination, the agent keeps
    the claim, because the host has its domain.
    """
    source, dest = source_place(run), run.progress.dest
    try:
        lease = run.renewing(dest)
    except ClaimExpired:
        if run.state(dest) == "absent":
            raise
        # An earlier conductor began the migration: the guest is at the destination, or on its
        # way. What it has there must not be removed.
        lease = run.renewing(None)
    with lease:
        run.live_migrate(source, dest)


def migrate_back(run: Run) -> None:
    """Migrate the guest back, if it has arrived: its claim at the destination was lost, and the
    source has kept its own. A guest that has stopped there since is defined at the source."""
    source, dest = source_place(run), run.progress.dest
    state = run.state(dest)
    if state == "running":
        run.live_migrate(dest, source)
    elif state == "stopped":
        if run.state(source) == "absent":
            run.define(source)
        run.undefine(dest)


def delete_old_allocations(run: Run) -> None:
    """Delete the allocations of the source, which the migration has."""
    allocations.delete(run, migration_of(run).uuid)


def report(run: Run) -> None:
    """Report the state to both sides."""
    report_both(run, run.progress.was, None)


LIVE_MIGRATION = Table(
    kind="live-migration",
    steps=(
        Step(name="reserve", do=reserve, undo=restore),
        Step(name="select", do=select, undo=unselect),
        Step(name="claim", do=claim_move, undo=drop_at_destination),
        Step(name="report-begin", do=report_moving, undo=report_back),
        Step(name="prepare", do=prepare, undo=cleanup),
        Step(name="leave", do=leave, undo=stay),
        Step(name="migrate", do=migrate, undo=migrate_back, stops=True),
        Step(name="arrive", do=arrive, final=True),
        Step(name="drop", do=drop_at_source),
        Step(name="cleanup", do=cleanup_source),
        Step(name="allocations", do=delete_old_allocations),
        Step(name="report", do=report),
    ),
    done=moved,
)
