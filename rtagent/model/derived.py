"""Views that are derived from an immutable value, computed once and cached outside the value.

A frozen value has no cache of its own, because nothing may write into it. The cache finds the views
by the identity of the value, and drops them when the value is freed.
"""

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

_V = TypeVar("_V")
_T = TypeVar("_T")


class Derived(Generic[_V, _T]):
    """The cached results of a pure function of one immutable value. Thread-safe.

    Callers share a result, so they must not change it. The value must support weak references. A
    result must not refer to its value, because the value would then never be freed.

    Entries are found by identity: hashing a whole node state costs more than computing most views.
    """

    def __init__(self, rule: Callable[[_V], _T]) -> None:
        functools.update_wrapper(self, rule)
        self._rule = rule
        self._views: dict[int, tuple[weakref.ref[_V], _T]] = {}
        # Reentrant: the garbage collector may call `_forget` in the thread that has the lock.
        # Nothing is created or freed with the lock held, so that no thread waits for another
        # cache's lock then.
        self._lock = threading.RLock()

    def __call__(self, value: _V) -> _T:
        """Return the result, computed now if it is not known."""
        with self._lock:
            known = self._views.get(id(value))
        if known is not None and known[0]() is value:
            return known[1]
        # Without the lock: two threads may compute the same result, but none waits for another.
        return self.keep(value, self._rule(value))

    def known(self, value: _V) -> _T | None:
        """Return the result if it has been computed, else None."""
        with self._lock:
            known = self._views.get(id(value))
        return known[1] if known is not None and known[0]() is value else None

    def carry(self, before: _V, after: _V) -> None:
        """Use the result of one value, if it is known, for another value of which the function
        returns an equal one.
        """
        known = self.known(before)
        if known is not None:
            self.keep(after, known)

    def keep(self, value: _V, result: _T) -> _T:
        """Use a result that was computed in another way, and is equal to that of the function."""
        key = id(value)
        computed = weakref.ref(value, functools.partial(self._forget, key)), result
        with self._lock:
            replaced = self._views.get(key)  # freed after the lock is released
            self._views[key] = computed
        del replaced
        return result

    def _forget(self, key: int, reference: weakref.ref[_V]) -> None:
        with self._lock:
            known = self._views.get(key)
            # Another value may have the same identity by now.
            if known is not None and known[0] is reference:
                del self._views[key]


def derived(rule: Callable[[_V], _T]) -> Derived[_V, _T]:
    """Cache the results of a pure function of one immutable value, see `Derived`."""
    return Derived(rule)
