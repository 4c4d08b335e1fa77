"""Which of the cloud's accounts differ. A rule over what `accounts` has read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Holding:
    """What a server has on a host. None: the store does not say.

    :ivar vcpus: with and without a host CPU of their own. :ivar cpus: host CPUs of its own.
    """

    vcpus: int | None = None
    memory_mb: int | None = None
    disk_gb: int | None = None
    cpus: frozenset[int] | None = None


#: Of one store: what servers have, by host and the server's uuid.
Account = Mapping[str, Mapping[str, Holding]]


def differences(accounts: Mapping[str, Account]) -> list[str]:
    """Return a sentence for each difference, at a moment at which nothing is done to a server."""
    lines = []
    for host in sorted({host for account in accounts.values() for host in account}):
        by_store = {name: acc[host] for name, acc in accounts.items() if host in acc}
        for server in sorted({uuid for servers in by_store.values() for uuid in servers}):
            missing = [name for name, servers in by_store.items() if server not in servers]
            if missing:
                having = [name for name in by_store if name not in missing]
                lines.append(
                    f"{host}: {server} is in {_listed(having)}, and not in {_listed(missing)}"
                )
            holdings = {n: servers[server] for n, servers in by_store.items() if server in servers}
            lines += [f"{host}: {server}: {text}" for text in _unequal(holdings)]
    return lines + doubles(accounts)


def _unequal(holdings: Mapping[str, Holding]) -> Iterator[str]:
    for field in fields(Holding):
        said = {name: getattr(holding, field.name) for name, holding in holdings.items()}
        said = {name: value for name, value in said.items() if value is not None}
        if len(set(said.values())) > 1:
            values = (
                f"{sorted(v) if isinstance(v, frozenset) else v} in {n}" for n, v in said.items()
            )
            yield f"{field.name}: {', '.join(values)}"


def doubles(accounts: Mapping[str, Account]) -> list[str]:
    """Return a sentence for each host CPU that a store gives to two servers: true at any moment."""
    return [
        f"{host}: CPU {cpu} belongs to {number} servers in {name}"
        for name, account in accounts.items()
        for host, servers in account.items()
        for cpu, number in Counter(
            cpu for holding in servers.values() for cpu in holding.cpus or ()
        ).items()
        if number > 1
    ]


def _listed(names: list[str]) -> str:
    return " and ".join(names)
