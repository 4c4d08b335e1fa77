"""What the interpreter counts and refuses: calls of functions, and threads."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def function_calls(run: Callable[[], object]) -> int:
    """Return the number of Python functions that `run` calls in this thread."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls


#: Bytes; more than any machine's address space has.
_STACK = 1 << 60


@contextmanager
def no_threads() -> Iterator[None]:
    """Let every start of a thread fail during the block, as at the limit of threads."""
    before = threading.stack_size(_STACK)
    try:
        yield
    finally:
        threading.stack_size(before)
