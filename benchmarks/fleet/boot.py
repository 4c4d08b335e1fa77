"""Boot storm: all agents start, many at the same moment."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable

from benchmarks.fleet.counts import Meter, memory
from benchmarks.fleet.fleet import Fleet
from benchmarks.fleet.looks import Looks
from benchmarks.fleet.measured import Phase, Value
from benchmarks.fleet.progress import Progress
from benchmarks.fleet.sampler import REQUESTS, TRANSACTIONS, Sampler
from tests.servers.placement import Request

#: Seconds for all agents to become ready, and for everything to catch up.
PATIENCE = 1800.0
#: The provider in the path of a request.
_PROVIDER = re.compile(r"/resource_providers/[0-9a-f-]{36}/\w+")


def boot(fleet: Fleet, meter: Meter, at_once: int, progress: Progress) -> Phase:
    """Start all agents, and wait until everything knows everything.

    :param at_once: see `Fleet.start`.
    """
    number, began = len(fleet.names), time.monotonic()
    with Sampler(fleet) as sampler:
        fleet.start(at_once)
        wait_ready(fleet, progress)
        ready = time.monotonic() - began
        wait_settled(fleet, progress)
        settled = time.monotonic() - began
    counts = meter.read()
    enrolled = sum(
        times for text, times in counts.statements.items() if "INSERT INTO compute_nodes" in text
    )
    used = memory(fleet)
    return Phase(
        name="boot storm",
        what=f"{number} agents start with an empty database, {at_once} at the same moment",
        values=(
            Value(name="until all agents grant claims", value=ready, unit="s"),
            Value(name="until every scheduler knows every host", value=settled, unit="s"),
            Value(name="peak of requests to Placement", value=sampler.peak(REQUESTS), unit="1/s"),
            Value(name="peak of transactions", value=sampler.peak(TRANSACTIONS), unit="1/s"),
            Value(
                name="requests to Placement by host",
                value=len(counts.requests) / number,
                unit="requests",
            ),
            Value(name="enrolments tried by host", value=enrolled / number, unit="times", target=3),
            Value(
                name="most repetitions of a request to Placement",
                value=repetitions(counts.requests),
                unit="times",
                target=3,
            ),
            Value(
                name="refused requests to Placement",
                value=sum(request.status >= 400 for request in counts.requests),
                unit="requests",
            ),
            *(
                Value(name=f"CPU time of {part}", value=seconds, unit="s")
                for part, seconds in counts.cpu.items()
            ),
            *(
                Value(name=f"memory of {part}", value=megabytes, unit="MiB")
                for part, megabytes in used.items()
            ),
            *connections(fleet),
        ),
        curves=sampler.curves(),
    )


def connections(fleet: Fleet) -> tuple[Value, ...]:
    """Return how many connections and threads there are."""
    number = len(fleet.names)
    threads = sum(fleet.each(lambda process: process.threads()))
    return (
        Value(name="threads of an agent", value=threads / number, unit="threads"),
        Value(
            name="connections to RabbitMQ", value=fleet.rabbitmq.connections(), unit="connections"
        ),
        Value(
            name="connections to PostgreSQL",
            value=fleet.postgresql.connections(),
            unit="connections",
        ),
    )


def wait_ready(fleet: Fleet, progress: Progress) -> None:
    """Wait until all agents grant claims. :raises TimeoutError:"""
    number, looks = len(fleet.names), Looks(PATIENCE)
    while (ready := looks.take(fleet.ready)) < number:
        progress.show("agents that grant claims", ready, number)
        looks.rest(f"{number - ready} agents are not ready")
    progress.show("agents that grant claims", number, number)


def wait_settled(fleet: Fleet, progress: Progress, patience: float = PATIENCE) -> None:
    """Wait until no part of an agent, and no scheduler, is behind. :raises TimeoutError:"""
    number, looks = len(fleet.names), Looks(patience)
    while behind := looks.take(fleet.behind):
        late = len({host for _, host in behind})
        progress.show("hosts that are known everywhere", number - late, number)
        looks.rest(f"behind: {dict(Counter(part for part, _ in behind))}")
    progress.show("hosts that are known everywhere", number, number)


def repetitions(requests: Iterable[Request]) -> int:
    """Return how often the most frequent request about one provider was sent."""
    counted = Counter(
        (request.method, found.group())
        for request in requests
        if (found := _PROVIDER.match(request.path))
    )
    return max(counted.values(), default=0)
