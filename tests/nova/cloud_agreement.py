"""Whether the claims of a cloud's hosts, Nova's rows and the domains agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.nova.cloud import Cloud
from tests.nova.compute_host import PATIENCE, PAUSE, ComputeHost, pins_of
from tests.servers.daemon import wait_until


def wait_agreement(cloud: Cloud) -> None:
    """Wait until they agree. :raises AssertionError: they do not, or a CPU is held twice."""
    found: list[str] = []

    def agree() -> bool:
        found[:] = _disagreements(cloud)
        return not found

    try:
        wait_until(agree, PATIENCE, PAUSE)
    except TimeoutError as error:
        raise AssertionError("\n".join(found)) from error


def _disagreements(cloud: Cloud) -> list[str]:
    servers, nodes = cloud.call("servers"), cloud.call("nodes")
    return [
        f"{name}: {each}"
        for name, host in cloud.hosts.items()
        for each in _of_host(host, nodes[name], servers, name)
    ]


def _of_host(host: ComputeHost, row: Any, servers: list[Any], name: str) -> Iterator[str]:
    claims, domains = host.claims(), host.domains()
    pins = [cpu for claim in claims for cpu in pins_of(claim)]
    _assert_distinct(pins, f"{name}: claims {claims}")
    _assert_distinct((cpu for each in domains.values() for cpu in each), f"{name}: {domains}")
    if (row["pins"], row["memory_mb"]) != (sorted(pins), sum(each["memory_mb"] for each in claims)):
        yield f"Nova's row {row}, claims {claims}"
    if strangers := {each["owner_id"] for each in claims} - {each["uuid"] for each in servers}:
        yield f"claims of deleted servers {strangers}"
    for uuid, of_domain in domains.items():
        if not _has(claims, uuid, of_domain):
            yield f"domain {uuid} on {of_domain}, claims {claims}"
    for server in servers:
        if server["host"] == name and not _has(claims, server["uuid"], server["pins"]):
            yield f"server {server}, claims {claims}"
    yield from map(str, host.differences())


def _has(claims: list[Any], owner: str, pins: list[int]) -> bool:
    return pins in [pins_of(each) for each in claims if each["owner_id"] == owner]


def _assert_distinct(cpus: Iterable[int], what: str) -> None:
    found = list(cpus)
    assert len(set(found)) == len(found), what
