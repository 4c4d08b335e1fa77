"""Step: one call that a life wants to make, and its outcome."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

#: In place of a host: any scheduler.
SCHEDULER = "scheduler"


@dataclass(frozen=True, kw_only=True)
class Step:
    """A call.

    :ivar host: or `SCHEDULER`. :ivar operation_id: None: the method changes nothing.
    :ivar creates: it creates a claim, whose uuid is the operation id. A caller that gives up such
        a call has to abort it.
    :ivar once: it is not made again if its outcome is unknown.
    """

    host: str
    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    operation_id: str | None = None
    creates: bool = False
    once: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a call ended.

    :ivar state: ``ok``; ``fail``: it certainly had no effect; ``info``: it is unknown.
    :ivar error: the type of the error, with its data.
    """

    state: Literal["ok", "fail", "info"]
    reply: Any = None
    error: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.state == "ok"


#: A script that yields steps and gets their outcomes, which are never ``info``.
Life = Generator[Step, Outcome, None]
#: A part of a life. Its value is what the life goes on with.
Part = Generator[Step, Outcome, Any]
