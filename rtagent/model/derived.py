"""Views that are derived from an immutable value, computed once and cached outside the value.

A frozen value has no cache of its own, because nothing may write into it. The cache finds the views
by the identity of the value, and drops them when the value is freed.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

_V = TypeVar("_V")
_T = TypeVar("_T")


def derived(rule: Callable[[_V], _T]) -> Callable[[_V], _T]:
    """Cache the results of a pure function of one immutable value. Thread-safe.

    Callers share a result, so they must not change it. The value must support weak references. A
    result must not refer to its value, because the value would then never be freed.

    Entries are found by identity: hashing a whole node state costs more than computing most views.
    """
    views: dict[int, tuple[weakref.ref[_V], _T]] = {}
    # Reentrant: the garbage collector may call `forget` in the thread that has the lock. Nothing is
    # created or freed with the lock held, so that no thread waits for another cache's lock then.
    lock = threading.RLock()

    def forget(key: int, reference: weakref.ref[_V]) -> None:
        with lock:
            known = views.get(key)
            # Another value may have the same identity by now.
            if known is not None and known[0] is reference:
                del views[key]

    @functools.wraps(rule)
    def view(value: _V) -> _T:
        key = id(value)
        with lock:
            known = views.get(key)
        if known is not None and known[0]() is value:
            return known[1]
        # Without the lock: two threads may compute the same result, but none waits for another.
        result = rule(value)
        computed = weakref.ref(value, functools.partial(forget, key)), result
        with lock:
            replaced = views.get(key)  # freed after the lock is released
            views[key] = computed
        del replaced
        return result

    return view
