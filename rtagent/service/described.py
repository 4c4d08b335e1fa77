"""A description of the running process in its log, for an operator who sent SIGUSR1."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterable

from rtagent.model.health import Check
from rtagent.ports import Reporter


def log_state(reporter: Reporter, doing: str, checks: Iterable[Check] = ()) -> None:
    """Log what the process does, the health of its parts, and the position of each thread.

    :param doing: what it does, in one sentence.
    """
    reporter.log("info", f"state: {doing}")
    for check in checks:
        why = f": {check.output}" if check.output else ""
        reporter.log("info", f"state: health of {check.part} is {check.status}{why}")
    frames = sys._current_frames()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is None:  # it has ended meanwhile
            continue
        stack = reversed(traceback.extract_stack(frame))
        where = ", ".join(f"{_short(at.filename)}:{at.lineno} {at.name}" for at in stack)
        reporter.log("info", f"state: thread {thread.name} is in {where}")


def _short(path: str) -> str:
    """Return the last two parts of a path: a line of the log has a limit."""
    return "/".join(path.split("/")[-2:])
