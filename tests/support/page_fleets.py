"""A fleet of simulated hosts, whose pages are served on a loopback port."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from types import TracebackType
from typing import Any, Self

from prometheus_client import CollectorRegistry

from rtagent.api.address import TcpAddress
from rtagent.api.scheduler_routes import SchedulerSources
from rtagent.api.server import ReadAPI
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.host_report import InstanceInfo, ServiceState
from rtagent.model.node_state import NodeState
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.select import Scheduler
from rtagent.service.explanations import Explanations
from tests.support.host_states import SEEN, aggregate, fleet_node, host_state
from tests.support.hosts import uid
from tests.support.scheduling import HostsInMemory, scheduler

DOWN_TIME = 60.0
FILTERS = ("ComputeFilter", "AggregateInstanceExtraSpecsFilter", "NUMATopologyFilter")

_node = cache(fleet_node)


@cache
def _instances(guests: int) -> tuple[InstanceInfo, ...]:
    """The guests of a host, of which the first one of a full host differs from its claim."""
    state = _node(guests)
    infos = [InstanceInfo(uuid=each, claims=state.claims_of(each)) for each in state.owners]
    if guests == 32:
        usage = DomainUsage(
            domain_uuid=uid(901), name="left-behind", active=True, vcpus=3, memory_mb=64
        )
        infos.append(InstanceInfo(uuid=uid(901), domain_usage=usage))
    return tuple(infos)


def simulated(number: int, **fields: Any) -> HostState:
    """Make one host of the fleet: its guests, its status and its zone depend on the number."""
    guests = (number * 7) % 33
    service = ServiceState(
        disabled=number % 50 == 3,
        disabled_reason="a faulty fan" if number % 50 == 3 else None,
        forced_down=number % 50 == 11,
        draining="firmware" if number % 50 == 17 else None,
    )
    closed = number % 50 == 29
    zone = f"zone-{number % 3}"
    return host_state(
        f"compute-{number:04}",
        _node(guests),
        instances=_instances(guests),
        aggregates=(aggregate(zone, availability_zone=zone),),
        service=service,
        **{
            "differing": int(guests == 32),
            "up": not closed,
            "why_not": "the hypervisor does not answer" if closed else "",
            "seen": SEEN - (DOWN_TIME + 5 if number % 50 == 41 else number % 9),
            **fields,
        },
    )


class PageFleet:
    """The hosts of a scheduler, and its read API. :ivar states: by uuid."""

    def __init__(self, *states: HostState) -> None:
        self.hosts = HostsInMemory(states)
        self.scheduler: Scheduler = scheduler(self.hosts, filters=FILTERS)
        self.sources = SchedulerSources(
            hosts=self.hosts.get_all_host_states,
            now=lambda: SEEN,
            down_time=lambda: DOWN_TIME,
            decisions=self.scheduler.decisions,
            aggregates=tuple,
            complete=lambda: True,
            checks=tuple,
            error=lambda: None,
            registry=CollectorRegistry(),
            hung=tuple,
            name="scheduler-1",
            time=lambda: datetime.now(UTC),
            explain=Explanations(self.scheduler).explain,
        )

    @classmethod
    def of(cls, number: int) -> Self:
        """Make a fleet of so many hosts."""
        return cls(*map(simulated, range(number)))

    def __enter__(self) -> Self:
        self.api = ReadAPI(TcpAddress(0), self.sources, patience=60)
        self.api.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.api.stop()

    @property
    def url(self) -> str:
        return f"http://{self.api.address}/"

    def document(self, path: str) -> dict[str, Any]:
        """Return a document of the read API."""
        return dict(json.loads(self.sources.answer(path).body))

    def state(self, number: int) -> NodeState:
        """Return the replica of a host."""
        return self.hosts.get_all_host_states()[number].replica
