"""Counts: what the parts of a fleet have sent, written and used."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

import psutil
from msgspec import Struct

from benchmarks.fleet.fleet import Fleet
from benchmarks.fleet.servers import cpu_seconds, is_write, memory_mb
from tests.servers.placement import Request

Number = TypeVar("Number", int, float)

#: The metrics of a scheduler that count the messages of agents.
_MESSAGES = tuple(
    f'rtagent_scheduler_messages_total{{outcome="{name}"}}'
    for name in ("accepted", "old", "set_aside")
)

#: Parts whose processes have no children. To look for children takes long in a large fleet.
_ALONE = ("agents", "schedulers")


class Counts(Struct, frozen=True, kw_only=True):
    """What was counted in a time.

    :ivar seconds: of wall clock. :ivar messages: that clients of the broker have published.
    :ivar reports: the messages of agents to the schedulers among these.
    :ivar statements: of the database, by text. :ivar transactions: those that have written.
    :ivar requests: to Placement. :ivar cpu: seconds by part of the fleet.
    :ivar machine: seconds of CPU time of the whole machine, which others may use, too.
    """

    seconds: float
    messages: int
    reports: int
    statements: Mapping[str, int]
    transactions: int
    requests: tuple[Request, ...]
    cpu: Mapping[str, float]
    machine: float

    @property
    def writes(self) -> int:
        """Statements that change rows."""
        return sum(number for text, number in self.statements.items() if is_write(text))


class Meter:
    """Counts from its making, or from the last `read`."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._last = self._absolute()

    def read(self) -> Counts:
        """Return what was counted since the last call."""
        before, now = self._last, self._absolute()
        self._last = now
        return Counts(
            seconds=now.seconds - before.seconds,
            messages=_since(before.messages, now.messages),
            reports=now.reports - before.reports,
            statements=dict(Counter(now.statements) - Counter(before.statements)),
            transactions=now.transactions - before.transactions,
            requests=now.requests,
            cpu={name: _since(before.cpu.get(name, 0.0), used) for name, used in now.cpu.items()},
            machine=now.machine - before.machine,
        )

    def _absolute(self) -> Counts:
        fleet = self._fleet
        url = fleet.places.database
        return Counts(
            seconds=time.monotonic(),
            messages=fleet.rabbitmq.published(),
            reports=_reports(fleet),
            statements=fleet.postgresql.statements(url),
            transactions=fleet.postgresql.writing_transactions(url),
            requests=tuple(fleet.placement.new_requests()),
            cpu=cpu_of_parts(fleet),
            machine=sum(psutil.cpu_times()[:3]),
        )


def _since(before: Number, now: Number) -> Number:
    """Return how much a counter has grown. One that was restarted began at zero."""
    return now - before if now >= before else now


def cpu_of_parts(fleet: Fleet) -> dict[str, float]:
    """Return the CPU seconds of each part of the fleet; without a part that does not run."""
    return {
        name: sum(cpu_seconds(pid, children=name not in _ALONE) for pid in pids)
        for name, pids in _parts(fleet).items()
    }


def memory(fleet: Fleet) -> dict[str, float]:
    """Return the memory of each part of the fleet in MiB."""
    return {name: sum(map(memory_mb, pids)) for name, pids in _parts(fleet).items()}


def _parts(fleet: Fleet) -> dict[str, list[int]]:
    """Return the processes of each part, without their children."""
    agents, schedulers = _ALONE
    servers = {
        "RabbitMQ": fleet.rabbitmq,
        "PostgreSQL": fleet.postgresql,
        "Placement": fleet.placement,
        "MariaDB": fleet.mariadb,
    }
    return {
        agents: [process.pid for process in fleet.processes],
        schedulers: [scheduler.pid for scheduler in fleet.schedulers],
        **{name: [server.pid] for name, server in servers.items() if server.running},
    }


def _reports(fleet: Fleet) -> int:
    """Return how many messages of agents a scheduler has got. Each goes to all schedulers."""
    metrics = fleet.schedulers[0].metrics()
    return int(sum(metrics.get(name, 0) for name in _MESSAGES))
