"""The operations start, stop, shelve and unshelve."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from rtagent.conductor.engine import Step, Table
from rtagent.conductor.operations.build import BUILD
from rtagent.conductor.operations.delete import delete_allocations
from rtagent.conductor.operations.moves import cleanup_source, source_place, undefine_source
from rtagent.conductor.operations.resize import start_again, stop
from rtagent.conductor.run import Run
from rtagent.model.server import ACTIVE, SHELVED_OFFLOADED, STOPPED, Server


def _start(run: Run) -> None:
    """Start the guest. Its claim is active as long as the server is on the host."""
    run.start(source_place(run))


def _report(vm_state: str) -> Callable[[Run], None]:
    """Return the step that reports a state."""
    return lambda run: run.report(source_place(run), vm_state, None)


def _changed(vm_state: str, **fields: Any) -> Callable[[Run], Server]:
    """Return the end of an operation after which the server has a state, and these fields."""
    return lambda run: replace(run.server, vm_state=vm_state, task_state=None, **fields)


START = Table(
    kind="start",
    steps=(Step(name="start", do=_start, undo=stop), Step(name="report", do=_report(ACTIVE))),
    done=_changed(ACTIVE),
)
STOP = Table(
    kind="stop",
    steps=(Step(name="stop", do=stop), Step(name="report", do=_report(STOPPED))),
    done=_changed(STOPPED),
    only_forward=True,
)


def _save(run: Run) -> None:
    """Save the disks elsewhere."""
    run.hook("save", source_place(run).host)


def _release(run: Run) -> None:
    """Report the state, which releases the claims."""
    update = {"uuid": run.server.uuid, "vm_state": SHELVED_OFFLOADED}
    run.end(source_place(run), "update_usage", instance=update)


SHELVE = Table(
    kind="shelve",
    steps=(
        Step(name="stop", do=stop, undo=start_again),
        Step(name="save", do=_save),
        Step(name="undefine", do=undefine_source, final=True),
        Step(name="cleanup", do=cleanup_source),
        Step(name="release", do=_release),
        Step(name="allocations", do=delete_allocations),
    ),
    done=_changed(SHELVED_OFFLOADED, place=None),
)

#: The steps of a build, after which a server that failed is still shelved.
UNSHELVE = Table(kind="unshelve", steps=BUILD.steps, done=BUILD.done)
