"""Census: compares every account of the servers of a fleet, host by host.

The accounts of the database, of the hypervisors, of Placement and of each scheduler are compared
with the answers that callers got. None is derived from another, and none is computed by the
package's own code.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from benchmarks.fleet.fleet import Fleet
from tests.servers.daemon import SchedulerServer

Resources = Mapping[str, int]
#: What an account says of one host: the servers on it, if it names them, and sums of resources.
Account = tuple[frozenset[str] | None, Resources]

VCPU, PCPU, MEMORY, DISK = "VCPU", "PCPU", "MEMORY_MB", "DISK_GB"


class Placed(Struct, frozen=True, kw_only=True):
    """A server, as a conductor answered. :ivar resources: by class of Placement, without zeros."""

    host: str
    resources: Resources


def differences(fleet: Fleet, servers: Mapping[str, Placed]) -> list[str]:
    """Return a sentence for each account of a host that differs from that of the callers.

    :param servers: all that exist, by uuid.
    """
    here: dict[str, dict[str, Placed]] = defaultdict(dict)
    for uuid, placed in servers.items():
        here[placed.host][uuid] = placed
    accounts = {
        "the database": _of_database(fleet),
        "the hypervisor": _of_hypervisors(fleet),
        "Placement": _of_placement(fleet),
        **{each.host: _of_scheduler(fleet, each) for each in fleet.schedulers},
    }
    found = []
    for host in fleet.names:
        wanted = frozenset(here[host]), _sum(here[host].values())
        for name, account in accounts.items():
            found += _compared(f"{host}: {name}", wanted, account.get(host))
    return found


def _compared(
    where: str, wanted: tuple[frozenset[str], Resources], found: Account | None
) -> list[str]:
    if found is None:
        return [f"{where} does not know the host"]
    owners, used = found
    sentences = []
    if owners is not None and owners != wanted[0]:
        more, less = sorted(owners - wanted[0]), sorted(wanted[0] - owners)
        sentences.append(f"{where} has {more} and lacks {less}")
    expected = {name: wanted[1].get(name, 0) for name in used}
    if expected != used:
        sentences.append(f"{where} has {dict(used)} instead of {expected}")
    return sentences


def _sum(servers: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for placed in servers:
        found.update(placed.resources)
    return found


def _of_database(fleet: Fleet) -> dict[str, Account]:
    """Read the rows of live claims: each server has one, and it is active."""
    url = fleet.places.database
    nodes = fleet.postgresql.rows(url, "SELECT host FROM compute_nodes WHERE deleted_at IS NULL")
    rows = fleet.postgresql.rows(
        url,
        "SELECT n.host, c.owner_id, c.vcpus, c.pcpus, c.memory_mb, c.disk_mb FROM claims c"
        " JOIN compute_nodes n ON n.uuid = c.node_uuid WHERE c.state <> 'released'",
    )
    owners: dict[str, set[str]] = {host: set() for (host,) in nodes}
    used: dict[str, Counter[str]] = {host: Counter() for host in owners}
    for host, owner, vcpus, pcpus, memory_mb, disk_mb in rows:
        owners[host].add(owner)
        here = {VCPU: vcpus, PCPU: pcpus, MEMORY: memory_mb, DISK: disk_mb // 1024}
        used[host].update(here)
    return {host: (frozenset(owners[host]), used[host]) for host in owners}


def _of_hypervisors(fleet: Fleet) -> dict[str, Account]:
    """Read the domains: each runs."""
    return {
        host: (frozenset(uuid for uuid, runs in view.domains.items() if runs), {})
        for host, view in fleet.views().items()
    }


def _of_placement(fleet: Fleet) -> dict[str, Account]:
    """Read the allocations of each provider by consumer, and sum them."""
    client = fleet.placement.client()
    found: dict[str, Account] = {}
    for provider in client.get("/resource_providers").json()["resource_providers"]:
        path = f"/resource_providers/{provider['uuid']}/allocations"
        allocations = client.get(path).json()["allocations"]
        used: Counter[str] = Counter(dict.fromkeys((VCPU, PCPU, MEMORY, DISK), 0))
        for each in allocations.values():
            used.update(each["resources"])
        host = provider["name"].removesuffix(".example")
        found[host] = frozenset(allocations), used
    return found


def _of_scheduler(fleet: Fleet, scheduler: SchedulerServer) -> dict[str, Account]:
    """Read the view of a scheduler: it names the instances of a host only one by one."""
    found: dict[str, Account] = {}
    for host, known in fleet.known(scheduler).items():
        instances = scheduler.read("hosts", host)["host"]["instances"]
        found[host] = frozenset(instances), {DISK: known["disk_mb_used"] // 1024}
    return found
