"""Run: a history as calls, faults and quiet periods. Violation: what a rule finds in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Self

from tests.chaos.history import RUN, Entry, read

#: Errors that are recorded as ``fail``, but whose call may have had an effect: a claim was made and
#: is aborted again, or was activated although its host is not ready for the domain.
UNCERTAIN = frozenset({"AllocationNotWritten", "CpuPowerFailed"})
#: The names of callers whose calls must all be refused begin with this.
ADVERSARY = "adversary"


@dataclass
class Call:
    """A call and its end.

    :ivar line: of its beginning. :ivar end_line: of its end, or `line`.
    :ivar invoked: seconds. :ivar ended: seconds; infinity: it has no end.
    :ivar outcome: ``ok``, ``fail`` (no effect) or ``info`` (unknown).
    """

    line: int
    process: str
    host: str
    method: str
    arguments: Mapping[str, Any]
    operation_id: str | None
    invoked: float
    ended: float = inf
    end_line: int = 0
    outcome: str = "info"
    reply: Any = None
    error: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def may_have_effect(self) -> bool:
        return self.outcome != "fail" and not self.process.startswith(ADVERSARY)

    @property
    def lines(self) -> tuple[int, ...]:
        return (self.line, self.end_line) if self.end_line else (self.line,)

    def end(self, line: int, entry: Entry) -> None:
        """Add the end of the call."""
        self.end_line, self.ended, self.outcome = line, float(entry["t"]), str(entry["type"])
        self.reply, self.error = entry.get("reply"), entry.get("error") or {}
        if self.outcome == "fail" and self.error.get("type") in UNCERTAIN:
            self.outcome = "info"


@dataclass(frozen=True)
class Fault:
    """The begin or the end of a fault."""

    line: int
    t: float
    name: str
    state: str
    target: str
    details: Mapping[str, Any]


@dataclass(frozen=True)
class DomainAction:
    """A caller has started or removed a domain.

    :ivar t: seconds, afterwards. :ivar claim: under which it was started, or "".
    """

    line: int
    t: float
    host: str
    uuid: str
    runs: bool
    claim: str


@dataclass(frozen=True)
class Observed:
    """A document that was read in a quiet period."""

    line: int
    t: float
    document: Any


@dataclass
class Period:
    """A quiet period: when it began, and what was observed, by what and host."""

    line: int
    t: float
    observed: dict[tuple[str, str], Observed] = field(default_factory=dict)

    def of(self, what: str) -> Iterator[tuple[str, Observed]]:
        """Yield host and observation."""
        for (name, host), observation in self.observed.items():
            if name == what:
                yield host, observation


@dataclass
class Run:
    """A whole history.

    :ivar calls: by number. :ivar patience: how many times as long as usual everything may take.
    :ivar end: seconds of the last line.
    """

    calls: dict[int, Call] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    domain_actions: list[DomainAction] = field(default_factory=list)
    periods: list[Period] = field(default_factory=list)
    unmatched: list[int] = field(default_factory=list)
    patience: float = 1.0
    end: float = 0.0

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file. :raises ValueError: it is no history."""
        run = cls()
        for line, entry in enumerate(read(path), 1):
            try:
                run.add(line, entry)
            except (KeyError, TypeError, IndexError) as exc:
                raise ValueError(f"{path}, line {line}: not an entry: {exc!r}") from exc
        return run

    def add(self, line: int, entry: Entry) -> None:
        """Add an entry."""
        self.end = t = float(entry["t"])
        match entry["type"]:
            case "begin":
                self.patience = float(entry["patience"])
            case "invoke":
                self.calls[entry["call"]] = Call(
                    line,
                    str(entry["process"]),
                    entry["host"],
                    entry["method"],
                    entry["arguments"] or {},
                    entry["operation_id"],
                    t,
                )
            case "ok" | "fail" | "info":
                if (call := self.calls.get(entry["call"])) is None or call.end_line:
                    self.unmatched.append(line)
                else:
                    call.end(line, entry)
            case "fault":
                fields = (entry["name"], entry["state"], entry["target"], entry["details"] or {})
                self.faults.append(Fault(line, t, *fields))
            case "domain":
                runs = entry["action"] == RUN
                of = entry["host"], entry["uuid"]
                self.domain_actions.append(DomainAction(line, t, *of, runs, entry["claim"]))
            case "quiet":
                self.periods.append(Period(line, t))
            case "observed":
                key = entry["what"], entry["host"]
                self.periods[-1].observed[key] = Observed(line, t, entry["document"])

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts that were called or observed."""
        called = {call.host for call in self.calls.values()}
        return frozenset(called.union(*(each for each in self._observed_hosts())) - {""})

    def _observed_hosts(self) -> Iterator[set[str]]:
        for period in self.periods:
            yield {host for what, host in period.observed if what == "claims"}


def rows(document: Any, key: str) -> list[Any]:
    """Return the list of a document: the document itself, or its field."""
    found = document.get(key, []) if isinstance(document, Mapping) else document
    return found if isinstance(found, list) else []


@dataclass(frozen=True, order=True)
class Violation:
    """:ivar promise: its name in the architecture, or a sentence. :ivar message: what is wrong.
    :ivar lines: numbers of lines of the history.
    """

    promise: str
    message: str
    lines: tuple[int, ...]

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.lines))
        return f"{self.promise}: {self.message} (lines {listed})"
