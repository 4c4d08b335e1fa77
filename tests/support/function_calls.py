"""How many Python functions something calls: a measure of work that no other load changes."""

from __future__ import annotations

import sys
from collections.abc import Callable


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
