"""What follows from an immutable value, worked out once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

_V = TypeVar("_V")
_T = TypeVar("_T")


def remembered(rule: Callable[[_V], _T]) -> Callable[[_V], _T]:
    """A pure function of one immutable value, which keeps the answer for as long as it lives.

    The value needs a ``__dict__``. Callers share the answer, so none may change it.
    """
    name = f"{rule.__module__}.{rule.__qualname__}"

    @functools.wraps(rule)
    def answer(value: _V) -> _T:
        known: dict[str, Any] = vars(value)
        if name not in known:
            known[name] = rule(value)  # by two threads at once, maybe: to the same effect
        return cast(_T, known[name])

    return answer
