"""Observer: reads what agents, the database, Placement, schedulers and hosts show."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lxml import etree
from oslo_context.context import RequestContext
from sqlalchemy import NullPool, create_engine, text

from rtagent.api.client import EventStream
from rtagent.rpc.client import AgentAPI
from tests.chaos.history import History
from tests.chaos.world.conductors import ConductorWorld
from tests.chaos.world.qemu import Qemu
from tests.chaos.world.world import World
from tests.servers.placement import Placement

#: The tables that are read; of those with a node, only its rows.
TABLES = (
    *("compute_nodes", "claims", "units", "claim_units", "pci_devices", "foreign_domains"),
    *("migrations", "operations", "drains", "claim_events"),
)
#: Tables that have no column ``node_uuid``.
_KEYS = {"compute_nodes": "uuid"}

#: Seconds within which all events are read.
EVENTS_TIMEOUT = 60.0

CONTEXT = RequestContext(user_id="observer", roles=["admin"], overwrite=False)


class Observer:
    """Reads and records what there is, while nothing is at fault and no caller calls."""

    def __init__(self, world: World, history: History) -> None:
        self._world, self._history = world, history
        self._transport = world.open_transport("observer")
        self._read: dict[tuple[str, str], Any] = {}
        #: Events come once, and are kept until they are recorded.
        self._unrecorded: dict[str, list[Any]] = {host: [] for host in world.agents}
        self._streams = {host: EventStream(part.events) for host, part in world.agents.items()}

    def api(self, host: str, timeout: float = 60.0) -> AgentAPI:
        """Return the client of an agent."""
        return AgentAPI(self._transport, host, timeout=timeout, attempts=1)

    def claims(self) -> Mapping[str, Any]:
        """Return the claims of each host."""
        return {
            host: self.api(host).get_claims_for_host(CONTEXT)["claims"]
            for host in self._world.agents
        }

    def consumers(self, host: str) -> set[str]:
        """Return the consumers with allocations on a host."""
        uuid = self.api(host).get_node(CONTEXT)["node"]["uuid"]
        providers = self._placement(uuid).values()
        return {consumer for each in providers for consumer in each["allocations"]}

    def read(self) -> None:
        """Read everything, in place of what was read before and is not recorded."""
        self._read = {}
        for host, part in self._world.agents.items():
            api = self.api(host)
            uuid = api.get_node(CONTEXT)["node"]["uuid"]
            self._unrecorded[host] += self._events(host)
            self._read |= {
                ("claims", host): api.get_claims_for_host(CONTEXT),
                ("node", host): part.read("nodes", host),
                ("units", host): self.rows(host, uuid, TABLES),
                ("events", host): list(self._unrecorded[host]),
                ("placement", host): self._placement(uuid),
                ("domains", host): self._domains(host),
                ("health", host): part.read("health"),
            }
        if isinstance(self._world, ConductorWorld):
            self._read["servers", ""] = self._world.servers_recorded()
        for scheduler in self._world.schedulers.values():
            hosts = {name: scheduler.read("hosts", name) for name in self._world.agents}
            self._read["scheduler", scheduler.name] = hosts

    def record(self) -> None:
        """Record what was read."""
        for (what, host), document in self._read.items():
            self._history.observed(what, host, document)
        for events in self._unrecorded.values():
            events.clear()

    def close(self) -> None:
        self._transport.cleanup()

    def rows(
        self, host: str, node_uuid: str, tables: Sequence[str]
    ) -> Mapping[str, list[dict[str, Any]]]:
        """Return the rows of a node, by table."""
        url, content = self._world.agent_database_url(host), {}
        with create_engine(url, poolclass=NullPool).connect() as connection:
            for table in tables:
                key = _KEYS.get(table, "node_uuid")
                query = text(f"SELECT * FROM {table} WHERE {key} = :node")
                rows = connection.execute(query, {"node": node_uuid}).mappings()
                content[table] = [dict(row) for row in rows]
        return content

    def _events(self, host: str) -> list[Any]:
        """Return the events since the last call; a gap is ``{"gap": ...}``.

        :raises TimeoutError: they do not end in time.
        """
        found: list[Any] = []
        timeout = EVENTS_TIMEOUT * self._world.patience
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            received = self._streams[host].next()
            found += [{"gap": received.gap}] if received.gap is not None else []
            found += received.events
            if received.complete:
                return found
            time.sleep(received.retry)
        raise TimeoutError(f"{host}: the events do not end within {timeout:g} s")

    def _domains(self, host: str) -> list[dict[str, Any]]:
        if (qemu := self._world.qemu.get(host)) is not None:
            return domains_below(qemu)
        return domains_of(self._world.agents[host].directory / "host.xml")

    def _placement(self, root: str) -> Mapping[str, Any]:
        """Return the providers of a node, by uuid, with inventories and allocations."""
        server = self._world.placement.server
        assert isinstance(server, Placement)
        client = server.client()
        tree = client.get(f"/resource_providers?in_tree={root}").json()["resource_providers"]
        return {
            each["uuid"]: {
                "name": each["name"],
                "parent": each["parent_provider_uuid"],
                **{
                    part: client.get(f"/resource_providers/{each['uuid']}/{part}").json()[part]
                    for part in ("inventories", "allocations", "traits")
                },
            }
            for each in tree
        }


_RUN_STATE = "{http://libvirt.org/schemas/domain/test/1.0}runstate"
_SHUT_OFF = "5"
KIB_IN_MIB = 1024


def domains_of(file: Path) -> list[dict[str, Any]]:
    """Return the domains of a host file, with what they are bound to."""
    found = etree.parse(str(file)).getroot().iterfind("domain")
    return [
        _domain(each, (each.findtext(_RUN_STATE) or "").strip() != _SHUT_OFF, 1) for each in found
    ]


def domains_below(qemu: Qemu) -> list[dict[str, Any]]:
    """Return the domains of a host with QEMU, with what they are bound to."""
    return [_domain(each, active, KIB_IN_MIB) for each, active in qemu.documents()]


def _domain(domain: etree._Element, active: bool, unit: int) -> dict[str, Any]:
    """:param unit: how many units of the document's memory are a MiB."""
    pins = [each.get("cpuset", "") for each in domain.iterfind("cputune/vcpupin")]
    return {
        "uuid": domain.findtext("uuid"),
        "claim": _claim(domain),
        "active": active,
        "vcpus": int(domain.findtext("vcpu") or 0),
        "memory_mb": int(domain.findtext("memory") or 0) // unit,
        "cpusets": pins,
        "devices": [
            _address(each)
            for each in domain.iterfind("devices/hostdev[@type='pci']/source/address")
        ],
        "mdevs": [
            each.get("uuid")
            for each in domain.iterfind("devices/hostdev[@type='mdev']/source/address")
        ],
    }


def _claim(domain: etree._Element) -> str | None:
    """Return the claim that a conductor's domain names; None: it is no conductor's."""
    server = domain.find("metadata/{urn:rtagent:server}server")
    return None if server is None else server.get("claim")


def _address(element: etree._Element) -> str:
    domain, bus, slot, function = (
        int(element.get(name, "0"), 0) for name in ("domain", "bus", "slot", "function")
    )
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
