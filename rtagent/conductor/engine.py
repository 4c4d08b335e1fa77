"""Engine: takes an operation through its table of steps, and records it before each step.

An error that a repetition does not resolve undoes the operation, from the step that failed back to
the first one. If another host may accept, the steps begin again there. After the final step, and
if an undo fails, the operation stops instead, and can be resumed.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from rtagent.conductor.errors import (
    HookFailed,
    OperationFailed,
    OperationInterrupted,
    OperationTaken,
)
from rtagent.conductor.patience import may_succeed_later
from rtagent.conductor.run import Run, Tried
from rtagent.errors import (
    AllocationMismatch,
    AllocationNotWritten,
    ClaimExpired,
    ClaimMismatch,
    ComputeResourcesUnavailable,
    EnactmentFailed,
    NodeDraining,
    NodeNotFound,
    PlacementConflict,
    RtAgentError,
    StoreDamaged,
)
from rtagent.model.base import Value
from rtagent.model.server import Server, ServerOperation
from rtagent.ports import Clock

Action = Callable[[Run], None]


def kept(run: Run) -> Server:
    """The end of an operation that leaves the server as it was."""
    return replace(run.server, task_state=None)


class Step(Value, frozen=True, kw_only=True):
    """One step.

    :ivar do: makes the call. It may be repeated, also after the process was killed at any point.
    :ivar undo: removes the effect of `do`, whether it had one or not. It may be repeated.
    :ivar stops: if its outcome is unknown, the operation stops, and is not undone but resumed.
    :ivar final: after it, the operation is not undone any more. It stops as well.
    """

    name: str
    do: Action
    undo: Action | None = None
    stops: bool = False
    final: bool = False


class Table(Value, frozen=True, kw_only=True):
    """The steps of a kind of operation, in order.

    :ivar done: returns the server after the operation; None: it is deleted.
    :ivar failed: returns the server after the operation was undone.
    :ivar only_forward: the operation is never undone; `failed` is not used.
    :ivar alone: nor does it change its server, which may be gone.
    """

    kind: str
    steps: tuple[Step, ...]
    done: Callable[[Run], Server | None] = kept
    failed: Callable[[Run], Server | None] = kept
    only_forward: bool = False
    alone: bool = False

    def position(self, name: str) -> int:
        """Return the index of a step."""
        return next(at for at, step in enumerate(self.steps) if step.name == name)

    def can_be_undone(self, at: int) -> bool:
        """Return whether the operation can be undone while the step of this index is made."""
        return not self.only_forward and not any(step.final for step in self.steps[:at])


def gone(_run: Run) -> None:
    """The end of an operation after which there is no server."""


#: Errors after which another host is tried. So are retriable errors that last.
ELSEWHERE = (
    *(ComputeResourcesUnavailable, AllocationMismatch, AllocationNotWritten, NodeNotFound),
    *(ClaimExpired, EnactmentFailed, StoreDamaged, HookFailed, PlacementConflict, NodeDraining),
)

#: Called before each step: the operation as it is recorded.
Listener = Callable[[ServerOperation], None]


class Engine:
    """Works on one operation."""

    def __init__(self, table: Table, run: Run, clock: Clock, listener: Listener) -> None:
        self._table, self._run, self._clock, self._listener = table, run, clock, listener

    def work(self) -> Server | None:
        """Finish the operation, or undo it. Return the server; None: it is deleted.

        :raises OperationFailed: it was undone.
        :raises OperationInterrupted: it stopped, and can be resumed.
        :raises OperationTaken: another conductor works on it.
        """
        steps = self._table.steps
        at = self._table.position(self._run.operation.step)
        while True:
            if not self._run.operation.forward:
                at = self._undo(at)
            elif at < len(steps):
                at = self._do(steps[at], at)
            else:
                return self._end(self._table.done(self._run), state="done")

    def _do(self, step: Step, at: int) -> int:
        """Make a step; return the index of the next one."""
        self._record(step=step.name, error=None)
        try:
            step.do(self._run)
        except OperationTaken:
            raise
        except RtAgentError as error:
            unknown = (step.stops or step.final) and may_succeed_later(error)
            if unknown or not self._table.can_be_undone(at):
                raise self._interrupted(error) from error
            self._fail(error)
            return at
        return at + 1

    def _fail(self, error: RtAgentError) -> None:
        """Begin to undo the operation. The step stays, because it may have had an effect."""
        run = self._run
        if (selection := run.progress.selection) is not None:
            tried = Tried(host=selection.host, error=error.as_dict())
            again = isinstance(error, ELSEWHERE) or may_succeed_later(error)
            again = again and run.operation.attempt < run.options.max_attempts
            run.learn(tried=(*run.progress.tried, tried), again=again)
        self._change(forward=False, error=error.as_dict())

    def _undo(self, at: int) -> int:
        """Undo the steps from an index backwards. Return the index of the first step if another
        host is tried.

        :raises OperationFailed: all steps are undone, and no other host is tried.
        """
        for step in reversed(self._table.steps[: at + 1]):
            if step.undo is None:
                continue
            self._record(step=step.name)
            try:
                step.undo(self._run)
            except OperationTaken:
                raise
            except ClaimMismatch:
                pass  # what the host has is of another claim: this step has no effect there
            except RtAgentError as error:
                raise self._interrupted(error) from error
        if not self._run.progress.again:
            raise self._failed()
        self._run.learn(again=False, selection=None, claim=None, migration=None)
        first = self._table.steps[0].name
        attempt = self._run.operation.attempt + 1
        self._change(forward=True, step=first, attempt=attempt)
        return 0

    # -- records ----------------------------------------------------------------------------------

    def _change(self, **fields: Any) -> None:
        self._run.operation = replace(self._run.operation, **fields)

    def _record(self, **fields: Any) -> None:
        """Make durable how far the operation is, before the next call."""
        self._run.save(**fields)
        self._listener(self._run.operation)

    def _end(self, server: Server | None, **fields: Any) -> Server | None:
        """Record the end of the operation, and the server after it."""
        run = self._run
        if self._table.alone:
            run.save(owner=None, **fields)
            return None
        if server is not None:
            server = replace(
                server,
                operation_uuid=None,
                updated_at=self._clock.now(),
                consumer_generation=run.floor,
            )
            run.server = server
        run.save(server or run.server, deleted=server is None, owner=None, **fields)
        return server

    def _failed(self) -> OperationFailed:
        self._end(self._table.failed(self._run), state="failed")
        return OperationFailed(
            **self._names(),
            error=self._run.operation.error,
            tried=[{"host": each.host, "error": each.error} for each in self._run.progress.tried],
        )

    def _interrupted(self, error: RtAgentError) -> OperationInterrupted:
        """Give the operation up for now, so that any conductor can resume it."""
        self._run.save(owner=None, error=error.as_dict())
        return OperationInterrupted(
            **self._names(), step=self._run.operation.step, error=error.as_dict()
        )

    def _names(self) -> dict[str, str]:
        operation = self._run.operation
        return {
            "operation_uuid": operation.uuid,
            "server_uuid": operation.server_uuid,
            "kind": operation.kind,
        }
