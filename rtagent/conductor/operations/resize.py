"""The operation resize: to another flavor, or with the same one to another host.

It ends with a server that waits for the operation confirm or revert.
"""

from typing import Any

from msgspec.structs import replace

from rtagent.conductor.engine import Step, Table
from rtagent.conductor.operations import allocations, moves
from rtagent.conductor.operations.hosts import prepare, select, start, unselect
from rtagent.conductor.run import Run
from rtagent.model.server import RESIZED, STOPPED, Place, Server, ServerMove


def stop(run: Run) -> None:
    """Stop the guest at the source."""
    run.stop(moves.source_place(run))


def stop_to_move(run: Run) -> None:
    """Stop the guest, and renew the lease while it shuts down, which may take long."""
    with run.renewing(run.progress.dest):
        stop(run)


def start_again(run: Run) -> None:
    """Start the guest at the source again. On the same host its old definition was replaced."""
    source = moves.source_place(run)
    run.define(source, *([run.progress.selected] if run.progress.selection else []))
    if moves.runs(run):
        run.start(source)


def copy(run: Run) -> None:
    """Copy the disks, and renew the lease during the copy."""
    if not moves.on_same_host(run):
        dest = run.progress.dest
        run.hook("copy", moves.source_place(run).host, dest.host, lease=dest)


def cleanup(run: Run) -> None:
    """Remove what `prepare` and `copy` made, unless the server is on this host anyway."""
    if not moves.on_same_host(run):
        run.hook("cleanup", run.progress.selected.host)


def undefine(run: Run) -> None:
    """Stop the guest at the destination, and remove its domain if it is not the source's, too."""
    order = run.stop if moves.on_same_host(run) else run.undefine
    order(run.progress.selected)


def define_moved(run: Run) -> None:
    """Define the domain with the claim's guest document. On the same host it replaces the old."""
    run.define(run.progress.dest, moves.source_place(run))


def start_if_it_ran(run: Run) -> None:
    """Start the guest at the destination, if it ran at the source."""
    if moves.runs(run):
        start(run)


def report(run: Run) -> None:
    """Report the new state to both sides."""
    moves.report_both(run, RESIZED, None)


def _done(run: Run) -> Server:
    move = ServerMove(
        migration=moves.migration_of(run),
        source=moves.source_place(run),
        spec=run.server.spec,
        was=run.progress.was,
    )
    return replace(
        run.server,
        spec=replace(run.server.spec, flavor=run.progress.spec.flavor),
        vm_state=RESIZED,
        task_state=None,
        place=run.progress.dest,
        move=move,
    )


RESIZE = Table(
    kind="resize",
    steps=(
        Step(name="reserve", do=moves.reserve, undo=moves.restore),
        Step(name="select", do=select, undo=unselect),
        Step(name="claim", do=moves.claim_move, undo=moves.drop_at_destination),
        Step(name="report-begin", do=moves.report_moving, undo=moves.report_back),
        Step(name="prepare", do=prepare, undo=cleanup),
        Step(name="stop", do=stop_to_move, undo=start_again),
        Step(name="leave", do=moves.leave, undo=moves.stay),
        Step(name="copy", do=copy),
        Step(name="arrive", do=moves.arrive),
        Step(name="define", do=define_moved, undo=undefine),
        Step(name="start", do=start_if_it_ran),
        Step(name="report", do=report),
    ),
    done=_done,
)


def _move(run: Run) -> ServerMove:
    move = run.server.move
    assert move is not None
    return move


def _dest(run: Run) -> Place:
    dest = run.server.place
    assert dest is not None
    return dest


def _on_same_host(run: Run) -> bool:
    return _move(run).source.node_uuid == _dest(run).node_uuid


def _arguments(run: Run) -> dict[str, Any]:
    return moves.move_arguments(run, _move(run).migration)


def _undefine_at_source(run: Run) -> None:
    """Remove the stopped guest at the source."""
    if not _on_same_host(run):
        run.undefine(_move(run).source)


def _cleanup_source(run: Run) -> None:
    """Remove the disks at the source."""
    if not _on_same_host(run):
        run.hook("cleanup", _move(run).source.host)


def _drop_at_source(run: Run) -> None:
    """Release the claim at the source."""
    run.end(_move(run).source, "drop_move_claim_at_source", **_arguments(run))


def _delete_old_allocations(run: Run) -> None:
    """Delete the allocations of the source, which the migration has."""
    allocations.delete(run, _move(run).migration.uuid)


def _report_confirmed(run: Run) -> None:
    """Report the state to both sides."""
    for place in (_dest(run), _move(run).source):
        run.report(place, _move(run).was, None)


def _confirmed(run: Run) -> Server:
    return replace(run.server, vm_state=_move(run).was, task_state=None, move=None)


CONFIRM = Table(
    kind="confirm",
    steps=(
        Step(name="undefine", do=_undefine_at_source),
        Step(name="cleanup", do=_cleanup_source),
        Step(name="drop", do=_drop_at_source),
        Step(name="allocations", do=_delete_old_allocations),
        Step(name="report", do=_report_confirmed),
    ),
    done=_confirmed,
    only_forward=True,
)


def _remove_at_dest(run: Run) -> None:
    """Stop the guest at the destination, and remove its domain if it is not the source's, too."""
    order = run.stop if _on_same_host(run) else run.undefine
    order(_dest(run))


def _cleanup_dest(run: Run) -> None:
    """Remove the disks at the destination."""
    if not _on_same_host(run):
        run.hook("cleanup", _dest(run).host)


def _drop_at_dest(run: Run) -> None:
    """Release the claim at the destination."""
    run.end(_dest(run), "drop_move_claim_at_dest", **_arguments(run))


def _take_allocations_back(run: Run) -> None:
    """Give the server the allocations of the source, which the migration has."""
    allocations.give(run, _move(run).migration.uuid, run.server.uuid)


def _return(run: Run) -> None:
    """Activate the claim at the source again, before the guest may start there."""
    run.learn(claim=run.agent(_move(run).source, "finish_revert", **_arguments(run)))


def _source(run: Run) -> Place:
    """Return the source with its claim as it is now."""
    source, claim = _move(run).source, run.progress.claim
    return source if claim is None else replace(source, claim=claim)


def _define_at_source(run: Run) -> None:
    """Define the domain at the source."""
    run.define(_source(run), _dest(run))


def _start_at_source(run: Run) -> None:
    """Start the guest at the source, if it ran before the move."""
    if _move(run).was != STOPPED:
        run.start(_source(run))


def _report_reverted(run: Run) -> None:
    """Report the state to both sides."""
    for place in (_source(run), _dest(run)):
        run.report(place, _move(run).was, None)


def _reverted(run: Run) -> Server:
    return replace(
        run.server,
        spec=_move(run).spec,
        vm_state=_move(run).was,
        task_state=None,
        place=_source(run),
        move=None,
    )


REVERT = Table(
    kind="revert",
    steps=(
        Step(name="remove", do=_remove_at_dest),
        Step(name="cleanup", do=_cleanup_dest),
        Step(name="drop", do=_drop_at_dest),
        Step(name="allocations", do=_take_allocations_back),
        Step(name="return", do=_return),
        Step(name="define", do=_define_at_source),
        Step(name="start", do=_start_at_source),
        Step(name="report", do=_report_reverted),
    ),
    done=_reverted,
    only_forward=True,
)
