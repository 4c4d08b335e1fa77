"""Steps of a server in a small cloud, each awaited until it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.nova.cloud_agreement import AgreeingHost, CallableCloud
from tests.nova.compute_host import PATIENCE, PAUSE, pins_of
from tests.nova.control_plane import IMAGE
from tests.servers.daemon import wait_until

SMALL, LARGE = 64, 96  # MB


def order(cloud: CallableCloud, name: str, host: str, extra_specs: dict[str, str]) -> str:
    """Have a small server built on a host; return its uuid at once."""
    uuid: str = cloud.call("build", IMAGE, name, host, SMALL, extra_specs)
    return uuid


def build(cloud: CallableCloud, name: str, host: str, extra_specs: dict[str, str]) -> str:
    """Build a small server on a host, and return its uuid."""
    uuid = order(cloud, name, host, extra_specs)
    wait_for(cloud, uuid, "active", host)
    return uuid


def delete(cloud: CallableCloud, *uuids: str) -> None:
    """Delete servers."""
    for uuid in uuids:
        cloud.call("delete", uuid)
    wait_until(lambda: servers(cloud).keys().isdisjoint(uuids), PATIENCE, PAUSE)


@contextmanager
def forced_down(cloud: CallableCloud, host: str) -> Iterator[None]:
    """Declare a host to be down for the length of the block: no server is built there."""
    cloud.call("force_down", host, True)
    try:
        yield
    finally:
        cloud.call("force_down", host, False)


def wait_for(cloud: CallableCloud, uuid: str, vm_state: str, host: str | None) -> None:
    """Wait until a server is in a state on a host, and Nova is not at work on it."""

    def is_there() -> bool:
        server = servers(cloud).get(uuid)
        if server is None:
            return False  # the scheduler is at work on it
        assert server["vm_state"] in (vm_state, "building", "active", "resized"), str(server)
        return (server["vm_state"], server["host"], server["task_state"]) == (vm_state, host, None)

    wait_until(is_there, PATIENCE, PAUSE)


def servers(cloud: CallableCloud) -> dict[str, Any]:
    """Return Nova's rows of the servers, by uuid."""
    return {each["uuid"]: each for each in cloud.call("servers")}


def held(host: AgreeingHost, uuid: str) -> list[list[int]]:
    """Return the CPUs of each claim of a server on a host."""
    return [pins_of(each) for each in host.claims() if each["owner_id"] == uuid]


def wait_held(host: AgreeingHost, uuid: str, *pins: list[int]) -> None:
    """Wait until a server has just these claims on a host."""
    wait_until(lambda: held(host, uuid) == list(pins), PATIENCE)
