"""The operations start and stop."""

from __future__ import annotations

from msgspec.structs import replace

from rtagent.conductor.operations.moves import source_place
from rtagent.conductor.operations.resize import stop, unmoved
from rtagent.conductor.run import Run
from rtagent.conductor.step import Step, Table
from rtagent.model.server import ACTIVE, STOPPED, Server


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
