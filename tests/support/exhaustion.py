"""A process that has no more threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
