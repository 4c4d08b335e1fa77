"""Processes of a fleet: objects in processes of their own, which are called by proxies."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: Seconds after which a thread that waits for the lock of the interpreter looks at it again. By
#: default it is 5 ms: hundreds of waiting threads would use the CPUs for nothing else. The thread
#: with the lock gives it up earlier, whenever it waits for anything.
SWITCH_INTERVAL = 5.0
#: How much lower than that of the servers their priority is. In life, the servers have machines of
#: their own, and no agent takes the CPU from them.
NICENESS = 19
#: The same for all processes of a session. Linux shares the CPUs among sessions first, so that the
#: niceness of a process counts in its own session only. Not on every machine, see ``sched(7)``.
SESSION_NICENESS = Path("/proc/self/autogroup")


class RemoteProcess(Generic[T]):
    """A process that has one object, until `close`. The object is called by its `proxy`.

    :ivar pid: of the process.
    :ivar proxy: has the public methods of the object. Thread-safe: each thread that calls has a
        connection of its own. Errors are raised here.
    """

    def __init__(self, make: Callable[[], T], log: Path) -> None:
        """:param log: gets the warnings of the process."""
        # A fork would copy the locks of threads.
        self._manager: Any
        self._manager = _Manager(ctx=multiprocessing.get_context("spawn"))
        self._manager.start(_prepare, (log,))
        self.proxy: T = self._manager.made(make)
        self.pid = int(str(self._manager.pid()))

    def close(self) -> None:
        """End the process."""
        self._manager.shutdown()


class _Manager(BaseManager):
    """Makes the object in the other process."""


def _made(make: Callable[[], T]) -> T:
    return make()


_Manager.register("made", _made)
_Manager.register("pid", os.getpid)


def _prepare(log: Path) -> None:
    """Leave signals to the process of the run, and end with it. Yield the CPUs to the servers."""
    _yield_cpus()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setswitchinterval(SWITCH_INTERVAL)
    logging.basicConfig(filename=log, level=logging.WARNING)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _yield_cpus() -> None:
    """Let the servers have the CPUs first."""
    os.nice(NICENESS)
    os.setsid()  # the process of the run, with the callers, keeps its own session
    # There is no such file, it cannot be written, or somebody has just written another one.
    with contextlib.suppress(OSError):
        SESSION_NICENESS.write_text(str(NICENESS))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
