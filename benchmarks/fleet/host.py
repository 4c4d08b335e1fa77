"""The simulated hosts of a fleet, and the options of their agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

from msgspec import Struct

from rtagent.model.topology import Cell, Topology
from rtagent.testing.hypervisor import FakeHypervisor

#: Each host has two cells of eight cores with two threads, 32 GiB each, of which 16 GiB are in
#: pages of 2 MiB.
CELLS, CORES, THREADS = 2, 8, 2
CELL_MB, LARGE_KIB, LARGE_PAGES = 32768, 2048, 8192
DISK_MB = 1024 * 1024
#: Seconds for an operation of the database. By default they are 5, which a thread that waits for a
#: CPU in the middle of a transaction may exceed. In life, agents do not share their CPUs.
OPERATION_TIMEOUT = 60
#: CPUs for guests with CPUs of their own, and for the others: by number, over both cells.
DEDICATED, SHARED = "4-15,20-31", "0-3,16-19"


class Servers(Struct, frozen=True, kw_only=True):
    """Where the servers of a fleet listen. :ivar broker: and database: URLs.
    :ivar placement: the options of ``[placement]``.
    """

    broker: str
    database: str
    placement: Mapping[str, object]


class Intervals(Struct, frozen=True, kw_only=True):
    """How often agents do what they do while idle.

    :ivar report: seconds: ``report_interval``. :ivar refresh: seconds:
        ``[compute] resource_provider_association_refresh``; None: the default.
    """

    report: int = 10
    refresh: int | None = None

    @property
    def service(self) -> Mapping[str, object]:
        """The options of agents and schedulers for the time between two reports."""
        return {"report_interval": self.report, "service_down_time": 6 * self.report}


class FleetHost(Struct, frozen=True):
    """One host. :ivar directory: of its agent."""

    name: str
    directory: Path

    @property
    def config_file(self) -> Path:
        return self.directory / "rtagent.conf"

    def configure(self, servers: Servers, intervals: Intervals) -> None:
        """Write the configuration of its agent: its places, sets of CPUs and times. All others are
        the defaults.
        """
        storage = self.directory / "instances"
        storage.mkdir(parents=True)
        default = {
            "host": self.name,
            "my_ip": "127.0.0.1",
            "state_path": self.directory,
            "lock_path": self.directory,
            "instances_path": storage,
            "transport_url": servers.broker,
            **intervals.service,
        }
        compute = {"cpu_dedicated_set": DEDICATED, "cpu_shared_set": SHARED}
        if intervals.refresh is not None:
            compute["resource_provider_association_refresh"] = str(intervals.refresh)
        groups: dict[str, Mapping[str, object]] = {
            "DEFAULT": default,
            "compute": compute,
            "database": {"connection": servers.database, "operation_timeout": OPERATION_TIMEOUT},
            "placement": servers.placement,
        }
        self.config_file.write_text(config_text(groups))

    def hypervisor(self) -> FakeHypervisor:
        """Return the hypervisor, without domains."""
        uuid = str(uuid5(NAMESPACE_DNS, self.name))
        return FakeHypervisor(TOPOLOGY, hostname=f"{self.name}.example", host_uuid=uuid)


def config_text(groups: Mapping[str, Mapping[str, object]]) -> str:
    """Return options by group as the text of a configuration file."""
    return "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
        for group, options in groups.items()
    )


def _cell(number: int) -> Cell:
    per_cell = CORES * THREADS
    cpus = range(number * per_cell, (number + 1) * per_cell)
    siblings = (frozenset(cpus[n : n + THREADS]) for n in range(0, per_cell, THREADS))
    small = (CELL_MB * 1024 - LARGE_PAGES * LARGE_KIB) // 4
    return Cell(
        id=number,
        cpus=frozenset(cpus),
        memory_mb=CELL_MB,
        siblings=tuple(siblings),
        sockets=frozenset({number}),
        pages={4: small, LARGE_KIB: LARGE_PAGES},
    )


TOPOLOGY = Topology(
    cpus=frozenset(range(CELLS * CORES * THREADS)),
    memory_mb=CELLS * CELL_MB,
    disk_mb=DISK_MB,
    hypervisor_type="fake",
    hypervisor_version=1_000_000,
    cells=tuple(_cell(number) for number in range(CELLS)),
)
