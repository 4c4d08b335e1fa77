"""Speed as users see it: seconds until a server runs, stock and rtagent in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from devcloud import contents
from devcloud.cloud import Cloud
from devcloud.compute import PROGRAMS
from devcloud.hosts import CloudError
from devcloud.places import STATE

#: Builds in one turn one after another, at the same time, and moves.
_SINGLE, _TOGETHER, _MOVES = 10, 8, 3
#: Builds on hosts that were filled, and as many on empty hosts.
_COUNTED = 40
_PATIENCE = 180.0


@dataclass
class Times:
    """Of one of `PROGRAMS`, in seconds, from each turn. :ivar rates: servers a minute."""

    single: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    resizes: list[float] = field(default_factory=list)
    live: list[float] = field(default_factory=list)


def measure(cloud: Cloud, turns: int) -> dict[str, Times]:
    """Measure both programs in turns, and return the times of each."""
    times = {kind: Times() for kind in PROGRAMS}
    for turn in range(turns):
        for kind in PROGRAMS:
            cloud.up(kind)
            cloud.say(f"turn {turn + 1} of {turns}: {kind}")
            _Turn(cloud.connect()).run(times[kind])
    return times


def measure_guests(cloud: Cloud, guests: int) -> Iterable[str]:
    """Fill both hosts with guests that Nova's fake driver does not start, and yield the lines of a
    table: servers a minute on empty hosts and on full ones, stock, rtagent, and their ratio.

    :param cloud: without data, as which it ends. :param guests: on each host.
    :raises CloudError: it has data.
    """
    rates: dict[str, tuple[float, float]] = {}
    for kind in PROGRAMS:
        if STATE.exists():
            raise CloudError("this needs an empty cloud: tools/openstack down --delete")
        for host in cloud.computes:
            host.driver = "fake.FakeDriver"
        cloud.up(kind)
        cloud.say(f"{kind}: {guests} guests on each host, and {_COUNTED} more")
        rates[kind] = _Turn(cloud.connect()).fill(guests * len(cloud.computes) + _COUNTED)
        cloud.delete()
    yield _HEAD
    for index, number in enumerate((0, guests)):
        stock, ours = (rates[kind][index] for kind in PROGRAMS)
        yield _line(f"servers a minute, {number} guests on a host", stock, ours)


class _Turn:
    def __init__(self, api: Any) -> None:
        self._api = api
        self._image = api.image.find_image(contents.IMAGES[0]).id
        self._network = api.network.find_network(contents.NETWORK).id

    def run(self, times: Times) -> None:
        self._delete(self._build("warm"))
        servers = []
        for number in range(_SINGLE):
            server, seconds = self._timed(self._build, f"single-{number}")
            times.single.append(seconds)
            servers.append(server)
        for server in servers[:_MOVES]:
            times.resizes.append(self._timed(self._resize, server)[1])
            times.live.append(self._timed(self._migrate, server)[1])
        self._delete(*servers)
        began = time.monotonic()
        with ThreadPoolExecutor(_TOGETHER) as pool:
            names = [f"together-{number}" for number in range(_TOGETHER)]
            built = list(pool.map(lambda name: self._timed(self._build, name), names))
        times.rates.append(60 * _TOGETHER / (time.monotonic() - began))
        times.together += [seconds for _, seconds in built]
        self._delete(*(server for server, _ in built))

    def fill(self, number: int) -> tuple[float, float]:
        """Build servers, and return how many there were a minute at first and at last."""
        contents.lift_quotas(self._api)
        ends: list[float] = [time.monotonic()]

        def build(index: int) -> None:
            self._build(f"guest-{index}")
            ends.append(time.monotonic())

        with ThreadPoolExecutor(_TOGETHER) as pool:
            list(pool.map(build, range(number)))
        first, last = ends[_COUNTED] - ends[0], ends[-1] - ends[-1 - _COUNTED]
        return 60 * _COUNTED / first, 60 * _COUNTED / last

    def _timed(self, do: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
        began = time.monotonic()
        made = do(*arguments)
        return made, time.monotonic() - began

    def _build(self, name: str) -> Any:
        server = self._api.compute.create_server(
            name=f"speed-{name}",
            flavor_id="nano",
            image_id=self._image,
            networks=[{"uuid": self._network}],
        )
        return self._wait(server, "ACTIVE")

    def _resize(self, server: Any) -> None:
        self._api.compute.resize_server(server, "micro")
        self._wait(server, "VERIFY_RESIZE")
        self._api.compute.confirm_server_resize(server)
        self._wait(server, "ACTIVE")

    def _migrate(self, server: Any) -> None:
        self._api.compute.live_migrate_server(server, host=None, block_migration="auto")
        self._wait(server, "ACTIVE")

    def _wait(self, server: Any, status: str) -> Any:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            seen = self._api.compute.get_server(server.id)
            if seen.status == "ERROR":
                raise CloudError(f"{seen.name} failed: {(seen.fault or {}).get('message')}")
            if seen.status == status and seen.task_state is None:
                return seen
            time.sleep(0.2)
        raise CloudError(f"{server.name}: not {status} in {_PATIENCE:.0f} s")

    def _delete(self, *servers: Any) -> None:
        for server in servers:
            self._api.compute.delete_server(server)
        for server in servers:
            self._api.compute.wait_for_delete(server, interval=1, wait=_PATIENCE)


def table(times: dict[str, Times]) -> Iterable[str]:
    """Yield the lines of a table with medians: what, stock, rtagent, and their ratio."""
    yield _HEAD
    for name, what in (
        ("single", "server create, one at a time: s"),
        ("together", f"server create, {_TOGETHER} at a time: s"),
        ("rates", f"servers a minute, {_TOGETHER} at a time"),
        ("resizes", "resize and confirm: s"),
        ("live", "live migration: s"),
    ):
        stock, ours = (statistics.median(getattr(times[kind], name)) for kind in PROGRAMS)
        yield _line(what, stock, ours)


_HEAD = f"{'':42} {'stock':>8} {'rtagent':>8} {'ratio':>6}"


def _line(what: str, stock: float, ours: float) -> str:
    return f"{what:42} {stock:8.2f} {ours:8.2f} {ours / stock:6.2f}"
