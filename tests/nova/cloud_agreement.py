"""Whether the claims of a cloud's hosts, Nova's rows and the domains agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from tests.nova.compute_host import PATIENCE, PAUSE, pins_of
from tests.servers.daemon import wait_until


class AgreeingHost(Protocol):
    """A host of a cloud. Methods as those of `ComputeHost`."""

    def claims(self) -> list[Any]: ...

    def domains(self) -> dict[str, list[int]]: ...

    def differences(self) -> list[Any]: ...


class CallableCloud(Protocol):
    """A cloud that does what nova-api would do."""

    def call(self, *command: Any) -> Any: ...


class ObservableCloud(CallableCloud, Protocol):
    """A cloud with its hosts, by name."""

    @property
    def hosts(self) -> Mapping[str, AgreeingHost]: ...


def wait_agreement(cloud: ObservableCloud) -> None:
    """Wait until they agree. :raises AssertionError: they do not, or a CPU is held twice."""
    wait_none(lambda: disagreements(cloud.call, cloud.hosts))


def wait_none(find: Callable[[], list[str]]) -> None:
    """Wait until no disagreement is found. :raises AssertionError: the last ones that were."""
    found: list[str] = []

    def agree() -> bool:
        found[:] = find()
        return not found

    try:
        wait_until(agree, PATIENCE, PAUSE)
    except TimeoutError as error:
        raise AssertionError("\n".join(found)) from error


def disagreements(call: Callable[[str], Any], hosts: Mapping[str, AgreeingHost]) -> list[str]:
    """Return on what the claims of hosts, Nova's rows and the domains do not agree.

    :param call: of the cloud. :param hosts: by name, or what they had at one moment.
    :raises AssertionError: a CPU is held twice.
    """
    servers, nodes = call("servers"), call("nodes")
    return [
        f"{name}: {each}"
        for name, host in hosts.items()
        for each in _of_host(host, nodes[name], servers, name)
    ]


def _of_host(host: AgreeingHost, row: Any, servers: list[Any], name: str) -> Iterator[str]:
    claims, domains = host.claims(), host.domains()
    pins = [cpu for claim in claims for cpu in pins_of(claim)]
    assert_distinct(pins, f"{name}: claims {claims}")
    assert_distinct((cpu for each in domains.values() for cpu in each), f"{name}: {domains}")
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


def assert_distinct(units: Iterable[object], what: str) -> None:
    """:raises AssertionError: a CPU or device is there twice. :param what: names them."""
    found = list(units)
    assert len(set(found)) == len(found), what
