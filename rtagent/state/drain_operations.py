"""DrainOperations: begin and end the drain of the node."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from rtagent.lifecycle import draining
from rtagent.model.change import Call
from rtagent.state.operations import Operations


class DrainOperations:
    """Each method may raise `Unavailable`, and `ClaimConflict` if the operation id was used for
    another call."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def begin(self, reason: str, deadline: datetime | None, call: Call) -> None:
        """Create no claims from now on. Existing claims stay."""
        rule = partial(draining.drain, reason=reason, deadline=deadline, call=call)
        self._operations.execute(rule, call)

    def end(self, call: Call) -> None:
        """Create claims again."""
        self._operations.execute(partial(draining.undrain, call=call), call)
