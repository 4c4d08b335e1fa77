"""SqlErrors: counts the failed transactions of an engine."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from rtagent.db.backends import Backend
from rtagent.errors import ChangeRejected, Deadlock, RtAgentError, StoreDamaged

#: What a failed transaction is counted as.
TIMEOUT, DEADLOCK, REFUSED = "timeout", "deadlock", "refused"
DAMAGED, UNAVAILABLE = "damaged", "unavailable"
EVERY_KIND = (TIMEOUT, DEADLOCK, REFUSED, DAMAGED, UNAVAILABLE)


class SqlErrors:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counter(dict.fromkeys(EVERY_KIND, 0))

    def add(self, backend: Backend, error: Exception, translated: RtAgentError) -> None:
        """Count an error of a driver or of the pool. :param translated: what callers get."""
        kind = _kind(backend, error, translated)
        with self._lock:
            self._counts[kind] += 1

    def counts(self) -> Mapping[str, int]:
        """Return the number of each kind."""
        with self._lock:
            return dict(self._counts)


def _kind(backend: Backend, error: Exception, translated: RtAgentError) -> str:
    if isinstance(translated, Deadlock):
        return DEADLOCK
    if isinstance(translated, ChangeRejected):
        return REFUSED
    if isinstance(translated, StoreDamaged):
        return DAMAGED
    if not isinstance(error, DBAPIError):  # the pool's: no connection was free in time
        return TIMEOUT
    return TIMEOUT if backend.timed_out(error) else UNAVAILABLE


_errors: WeakKeyDictionary[Engine, SqlErrors] = WeakKeyDictionary()
_lock = threading.Lock()


def errors_of(engine: Engine) -> SqlErrors:
    """Return the counters of an engine, which all its transactions share."""
    with _lock:
        return _errors.setdefault(engine, SqlErrors())
