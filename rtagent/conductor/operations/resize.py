"""The operation resize: to another flavor, or with the same one to another host.

It ends with a server that waits to be confirmed or reverted.
"""

from __future__ import annotations

from msgspec.structs import replace

from rtagent.conductor.operations.guests import prepare, start
from rtagent.conductor.operations.hosts import select, selected, unselect
from rtagent.conductor.operations.moves import (
    arrive,
    claim_move,
    drop_at_destination,
    leave,
    migration_of,
    on_same_host,
    report_back,
    report_both,
    report_moving,
    reserve,
    restore,
    runs,
    source_place,
    stay,
)
from rtagent.conductor.run import Run
from rtagent.conductor.step import Step, Table
from rtagent.model.server import RESIZED, Server, ServerMove


def stop(run: Run) -> None:
    """Stop the guest at the source."""
    run.stop(source_place(run))


def stop_to_move(run: Run) -> None:
    """Stop the guest, and renew the lease while it shuts down, which may take long."""
    with run.renewing(run.progress.dest):
        stop(run)


def start_again(run: Run) -> None:
    """Start the guest at the source again. On the same host its old definition was replaced."""
    source = source_place(run)
    run.define(source, *([selected(run)] if run.progress.selection else []))
    if runs(run):
        run.start(source)


def copy(run: Run) -> None:
    """Copy the disks, and renew the lease during the copy."""
    if not on_same_host(run):
        dest = run.progress.dest
        run.hook("copy", source_place(run).host, dest.host, lease=dest)


def cleanup(run: Run) -> None:
    """Remove what `prepare` and `copy` made, unless the server is on this host anyway."""
    if not on_same_host(run):
        run.hook("cleanup", selected(run).host)


def undefine(run: Run) -> None:
    """Stop the guest at the destination, and remove its domain if it is not the source's, too."""
    order = run.stop if on_same_host(run) else run.undefine
    order(selected(run))


def define_moved(run: Run) -> None:
    """Define the domain with the claim's guest document. On the same host it replaces the old."""
    run.define(run.progress.dest, source_place(run))


def start_if_it_ran(run: Run) -> None:
    """Start the guest at the destination, if it ran at the source."""
    if runs(run):
        start(run)


def report(run: Run) -> None:
    """Report the new state to both sides."""
    report_both(run, RESIZED, None)


def _done(run: Run) -> Server:
    move = ServerMove(
        migration=migration_of(run),
        source=source_place(run),
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


def unmoved(run: Run) -> Server:
    """Return the server as it was before the operation."""
    return replace(run.server, task_state=None)


RESIZE = Table(
    kind="resize",
    steps=(
        Step(name="reserve", do=reserve, undo=restore),
        Step(name="select", do=select, undo=unselect),
        Step(name="claim", do=claim_move, undo=drop_at_destination),
        Step(name="report-begin", do=report_moving, undo=report_back),
        Step(name="prepare", do=prepare, undo=cleanup),
        Step(name="stop", do=stop_to_move, undo=start_again),
        Step(name="leave", do=leave, undo=stay),
        Step(name="copy", do=copy),
        Step(name="arrive", do=arrive),
        Step(name="define", do=define_moved, undo=undefine),
        Step(name="start", do=start_if_it_ran),
        Step(name="report", do=report),
    ),
    done=_done,
    failed=unmoved,
)
