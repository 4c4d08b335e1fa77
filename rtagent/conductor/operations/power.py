"""The operations start, stop, shelve and unshelve."""

from __future__ import annotations

from msgspec.structs import replace

from rtagent.conductor.engine import Step, Table
from rtagent.conductor.operations.build import BUILD
from rtagent.conductor.operations.delete import delete_allocations
from rtagent.conductor.operations.moves import source_place
from rtagent.conductor.operations.resize import start_again, stop, unmoved
from rtagent.conductor.run import Run
from rtagent.model.server import ACTIVE, SHELVED_OFFLOADED, STOPPED, Server


def _start(run: Run) -> None:
    """Start the guest. Its claim is active as long as the server is on the host."""
    run.start(source_place(run))


def _report_started(run: Run) -> None:
    """Report the state."""
    run.report(source_place(run), ACTIVE, None)


def _report_stopped(run: Run) -> None:
    """Report the state."""
    run.report(source_place(run), STOPPED, None)


def _started(run: Run) -> Server:
    return replace(run.server, vm_state=ACTIVE, task_state=None)


def _stopped(run: Run) -> Server:
    return replace(run.server, vm_state=STOPPED, task_state=None)


START = Table(
    kind="start",
    steps=(Step(name="start", do=_start, undo=stop), Step(name="report", do=_report_started)),
    done=_started,
    failed=unmoved,
)
STOP = Table(
    kind="stop",
    steps=(Step(name="stop", do=stop), Step(name="report", do=_report_stopped)),
    done=_stopped,
    failed=unmoved,
    only_forward=True,
)


def _save(run: Run) -> None:
    """Save the disks elsewhere."""
    run.hook("save", source_place(run).host)


def _undefine(run: Run) -> None:
    """Remove the guest. From here on the server is shelved."""
    run.undefine(source_place(run))


def _cleanup(run: Run) -> None:
    """Remove its disks."""
    run.hook("cleanup", source_place(run).host)


def _release(run: Run) -> None:
    """Report the state, which releases the claims."""
    update = {"uuid": run.server.uuid, "vm_state": SHELVED_OFFLOADED}
    run.end(source_place(run), "update_usage", instance=update)


def _shelved(run: Run) -> Server:
    return replace(run.server, vm_state=SHELVED_OFFLOADED, task_state=None, place=None)


SHELVE = Table(
    kind="shelve",
    steps=(
        Step(name="stop", do=stop, undo=start_again),
        Step(name="save", do=_save),
        Step(name="undefine", do=_undefine, final=True),
        Step(name="cleanup", do=_cleanup),
        Step(name="release", do=_release),
        Step(name="allocations", do=delete_allocations),
    ),
    done=_shelved,
    failed=unmoved,
)

#: The steps of a build, after which a server that failed is still shelved.
UNSHELVE = Table(kind="unshelve", steps=BUILD.steps, done=BUILD.done, failed=unmoved)
