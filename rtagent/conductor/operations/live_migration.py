"""The operation live-migration."""

from rtagent.conductor.engine import Step, Table
from rtagent.conductor.operations import allocations, moves
from rtagent.conductor.operations.hosts import cleanup, prepare, select, unselect
from rtagent.conductor.run import Run
from rtagent.errors import ClaimExpired


def migrate(run: Run) -> None:
    """Migrate the running guest, and renew the lease during the migration.

    The loss of the lease is noticed first. Once the guest is at the destination, the agent keeps
    the claim, because the host has its domain.
    """
    source, dest = moves.source_place(run), run.progress.dest
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
    source, dest = moves.source_place(run), run.progress.dest
    state = run.state(dest)
    if state == "running":
        run.live_migrate(dest, source)
    elif state == "stopped":
        if run.state(source) == "absent":
            run.define(source)
        run.undefine(dest)


def delete_old_allocations(run: Run) -> None:
    """Delete the allocations of the source, which the migration has."""
    allocations.delete(run, moves.migration_of(run).uuid)


def report(run: Run) -> None:
    """Report the state to both sides."""
    moves.report_both(run, run.progress.was, None)


LIVE_MIGRATION = Table(
    kind="live-migration",
    steps=(
        Step(name="reserve", do=moves.reserve, undo=moves.restore),
        Step(name="select", do=select, undo=unselect),
        Step(name="claim", do=moves.claim_move, undo=moves.drop_at_destination),
        Step(name="report-begin", do=moves.report_moving, undo=moves.report_back),
        Step(name="prepare", do=prepare, undo=cleanup),
        Step(name="leave", do=moves.leave, undo=moves.stay),
        Step(name="migrate", do=migrate, undo=migrate_back, stops=True),
        Step(name="arrive", do=moves.arrive, final=True),
        Step(name="drop", do=moves.drop_at_source),
        Step(name="cleanup", do=moves.cleanup_source),
        Step(name="allocations", do=delete_old_allocations),
        Step(name="report", do=report),
    ),
    done=moves.moved,
)
