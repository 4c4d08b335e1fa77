"""The hosts of a fleet as people see them: a status, and how much of each host is promised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rtagent.api import scheduler_hosts
from rtagent.api.page.text import web_address
from rtagent.model.base import Value
from rtagent.scheduler.host_state import HostState

#: Statuses, worst first: the name, the sign that stands for it where there is no space for words,
#: and what it means.
DOWN, CLOSED, DRAINING, DISABLED, UP = STATUSES = ("down", "closed", "draining", "disabled", "up")
SIGNS: Mapping[str, str] = {DOWN: "✕", CLOSED: "!", DRAINING: "↓", DISABLED: "=", UP: ""}
MEANINGS: Mapping[str, str] = {
    DOWN: "down: its agent is silent, or an operator has forced it down",
    CLOSED: "closed: its agent grants no claims now",
    DRAINING: "draining: it gets no new claims",
    DISABLED: "disabled: its service is disabled",
    UP: "up",
}
#: What the colours of the heat map show: the label.
MEASURES: Mapping[str, str] = {
    "most": "the scarcest resource",
    "vcpus": "shared vCPUs",
    "pcpus": "dedicated CPUs",
    "memory": "memory",
    "disk": "disk",
}
#: Steps of the colours.
STEPS = 10


class FleetHost(Value, frozen=True, kw_only=True):
    """One host.

    :ivar status: one of `STATUSES`. :ivar why: the reason, if there is one.
    :ivar promised: by measure, in percent of what can be claimed; without those of which the host
        has nothing.
    :ivar differing: domains that differ from their claims, or have none.
    :ivar page_url: of the pages of its agent, if that can be a link.
    """

    name: str
    nodename: str
    uuid: str
    status: str
    why: str
    zone: str
    aggregates: tuple[str, ...]
    instances: int
    differing: int
    age: float | None
    promised: Mapping[str, float]
    free_vcpus: int
    free_pcpus: int
    free_memory_mb: int
    free_disk_mb: int
    devices: int
    page_url: str = ""

    @property
    def most(self) -> float:
        """The promised part of the scarcest resource, in percent."""
        return max(self.promised.values(), default=0.0)

    def heat(self, measure: str) -> float | None:
        """Return what the colour shows; None: the host has nothing of it."""
        return self.most if measure == "most" else self.promised.get(measure)


def fleet(states: Sequence[HostState], now: float, down_time: float) -> list[FleetHost]:
    """Return the hosts, by name.

    :param now: on the monotonic clock. :param down_time: ``service_down_time``.
    """
    documents = scheduler_hosts.hosts(states, now, down_time)["hosts"]
    by_uuid = {each.uuid: each for each in states}
    return [fleet_host(by_uuid[each["uuid"]], each) for each in documents]


def fleet_host(state: HostState, document: Mapping[str, object]) -> FleetHost:
    """Return one host. :param document: what the read API has of it."""
    capacity, service = state.capacity, state.service
    status, why = _status(state, alive=bool(document["alive"]))
    age = document["age"]
    zone = document["availability_zone"]
    return FleetHost(
        name=state.host,
        nodename=state.nodename,
        uuid=state.uuid,
        status=status,
        why=why or (service.disabled_reason or "" if status == DISABLED else ""),
        zone=str(zone) if zone is not None else "",
        aggregates=tuple(each.name for each in state.aggregates),
        instances=state.num_instances,
        differing=state.differing,
        age=age if isinstance(age, float | int) else None,
        promised=dict(_promised(state)),
        free_vcpus=capacity.free_vcpus,
        free_pcpus=capacity.free_pcpus,
        free_memory_mb=capacity.free_memory_mb,
        free_disk_mb=capacity.free_disk_mb,
        devices=state.available_devices,
        page_url=web_address(state.page_url),
    )


def _status(state: HostState, *, alive: bool) -> tuple[str, str]:
    service = state.service
    if not alive:
        return DOWN, "forced down" if service.forced_down else "its agent is silent"
    if service.draining is not None:
        return DRAINING, service.draining
    if service.disabled:
        return DISABLED, service.disabled_reason or ""
    return (UP, "") if state.up else (CLOSED, state.why_not)


def _promised(state: HostState) -> Iterator[tuple[str, float]]:
    has, usage = state.capacity, state.replica.usage
    for name, used, free in (
        ("vcpus", usage.vcpus, has.free_vcpus),
        ("pcpus", usage.pcpus, has.free_pcpus),
        ("memory", usage.memory_mb, has.free_memory_mb),
        ("disk", usage.disk_mb, has.free_disk_mb),
    ):
        whole = used + free
        if name == "disk" and not has.disk_checked:
            continue
        if whole > 0:
            yield name, round(100 * used / whole, 1)
        elif used > 0:
            yield name, 100.0


def step(heat: float | None) -> int | None:
    """Return the colour of a heat, from 0 to `STEPS`; None: there is none."""
    return None if heat is None else max(0, min(STEPS, round(heat / 100 * STEPS)))


def zones(hosts: Iterable[FleetHost]) -> tuple[str, ...]:
    """Return the availability zones of the hosts."""
    return tuple(sorted({each.zone for each in hosts if each.zone}))


def aggregates(hosts: Iterable[FleetHost]) -> tuple[str, ...]:
    """Return the names of the aggregates of the hosts."""
    return tuple(sorted({name for each in hosts for name in each.aggregates}))
