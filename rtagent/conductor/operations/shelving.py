"""The operations shelve and unshelve. A shelved server is on no host."""

from __future__ import annotations

from msgspec.structs import replace

from rtagent.conductor.operations.build import BUILD
from rtagent.conductor.operations.delete import delete_allocations
from rtagent.conductor.operations.moves import source_place
from rtagent.conductor.operations.resize import start_again, stop, unmoved
from rtagent.conductor.run import Run
from rtagent.conductor.step import Step, Table
from rtagent.model.server import SHELVED_OFFLOADED, Server


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
