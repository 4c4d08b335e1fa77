"""History: what callers, faults and observers of a run saw, as lines of JSON in a file.

Each line has `t` (monotonic seconds) and `type`. The other fields are:

======== =================================================================================
begin    patience: how many times as long as usual everything may take
invoke   process, call, host, method, arguments, operation_id
ok       process, call, reply
fail     process, call, error: the call certainly had no effect
info     process, call, error: whether the call had its effect is unknown
fault    name, state (``begin`` or ``end``), target, details
domain   host, uuid, action (``run`` or ``remove``), claim: what a caller has done to a domain
quiet    nothing: faults have ended, and every call has its end
observed what, host, document: what was read after `quiet`
======== =================================================================================

The order of the lines is the order of `t`. Only the standard library is used here, because the
checker reads histories with this module.
"""

import itertools
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

Entry = dict[str, Any]

#: Bytes that a line may have.
MAX_ENTRY = 16 * 2**20
#: What a field that made its line too long becomes: ``{"oversize": BYTES}``.
OVERSIZE = "oversize"

#: What callers do to domains; the `action` of `domain`.
RUN, REMOVE = "run", "remove"

#: What is read after a quiet period; the `what` of `observed`.
OBSERVATIONS = (
    *("claims", "node", "units", "events", "placement"),
    *("scheduler", "domains", "health", "servers"),
)


class History:
    """Appends entries to a file. Thread-safe; one process writes a file.

    Each entry is written at once and in one piece, so that a killed run leaves a history that can
    be read up to its last whole line.
    """

    def __init__(self, path: Path | str, max_entry: int = MAX_ENTRY) -> None:
        """:param max_entry: bytes that a line may have; longer fields are replaced.

        :raises FileExistsError: the file would get the entries of two runs.
        """
        self.path, self._max_entry = Path(path), max_entry
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._lock = threading.Lock()
        self._calls = itertools.count(1)
        self._counts: dict[str, int] = {}

    def begin(self, patience: float) -> None:
        """Record that a run begins. :param patience: the limits of time are multiplied by it."""
        self._append("begin", patience=patience)

    # -- calls -------------------------------------------------------------------------------------

    def invoke(
        self,
        process: str,
        host: str,
        method: str,
        arguments: Mapping[str, Any],
        operation_id: str | None = None,
    ) -> int:
        """Record that a call begins, and return its number. Call this before it is sent.

        :param process: the caller: one thread, which has one call at a time.
        :param host: the server; "" for a scheduler or for all.
        """
        call = next(self._calls)
        self._append(
            "invoke",
            process=process,
            call=call,
            host=host,
            method=method,
            arguments=arguments,
            operation_id=operation_id,
        )
        return call

    def end(self, process: str, call: int, state: str, **outcome: Any) -> None:
        """Record how a call ended: ``ok``, with its `reply`, or ``fail`` or ``info``, with `error`.

        The error has `type` and the error's arguments.
        """
        self._append(state, process=process, call=call, **outcome)

    # -- the others --------------------------------------------------------------------------------

    def fault(self, name: str, state: str, target: str, details: Mapping[str, Any]) -> None:
        """Record that a fault begins or ends. :param state: ``begin`` or ``end``."""
        self._append("fault", name=name, state=state, target=target, details=details)

    def domain(self, action: str, host: str, uuid: str, claim: str = "") -> None:
        """Record that a domain was started (`RUN`) or removed (`REMOVE`). Call this afterwards.

        :param claim: under which it was started.
        """
        self._append("domain", action=action, host=host, uuid=uuid, claim=claim)

    def quiet(self) -> None:
        """Record that faults have ended, every call has its end, and the agents have audited."""
        self._append("quiet")

    def observed(self, what: str, host: str, document: Any) -> None:
        """Record what was read after `quiet`. :param what: one of `OBSERVATIONS`."""
        if what not in OBSERVATIONS:
            raise ValueError(f"what is {what!r}; it must be one of {', '.join(OBSERVATIONS)}")
        self._append("observed", what=what, host=host, document=document)

    def count(self, type: str) -> int:
        """Return how many entries of a type were written."""
        with self._lock:
            return self._counts.get(type, 0)

    # -- the file ----------------------------------------------------------------------------------

    def _append(self, type: str, **fields: Any) -> None:
        with self._lock:
            line = _encode(
                {"t": round(time.monotonic(), 6), "type": type, **fields}, self._max_entry
            )
            while line:
                line = line[os.write(self._file, line) :]
            self._counts[type] = self._counts.get(type, 0) + 1

    def close(self) -> None:
        """Write the file out, and close it. Entries after this are errors."""
        with self._lock:
            os.fsync(self._file)
            os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(path: Path | str) -> Iterator[Entry]:
    """Yield the entries of a file. A last line that was not wholly written is left out.

    :raises ValueError: a line in between is not an entry; it names file and line.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                entry = json.loads(line)
            except ValueError as exc:
                raise ValueError(f"{path}, line {number}: not JSON: {exc}") from exc
            if not isinstance(entry, dict) or not {"t", "type"} <= entry.keys():
                raise ValueError(f"{path}, line {number}: an entry has t and type")
            yield entry


def _encode(entry: Entry, max_entry: int) -> bytes:
    """Return the line of an entry; fields are replaced, longest first, until it fits."""
    line = _line(entry)
    while len(line) > max_entry:
        sizes = {name: len(_line(value)) for name, value in entry.items()}
        longest = max(sizes, key=lambda name: sizes[name])
        entry = {**entry, longest: {OVERSIZE: sizes[longest]}}
        line = _line(entry)
    return line


def _line(value: Any) -> bytes:
    # What JSON does not have (a UUID, a set, an error) is recorded as its text.
    return json.dumps(value, default=str, separators=(",", ":")).encode() + b"\n"
