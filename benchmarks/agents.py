"""Agents to measure: in a process of their own, or as a node in this process."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from oslo_config import cfg

from benchmarks.bench import Bench
from rtagent.claims import activate_claim, instance_claim
from rtagent.conf import load
from rtagent.conf.load import read
from rtagent.conf.settings import Settings
from rtagent.db.engine import open_engine
from rtagent.db.migrate import sync
from rtagent.db.store import SqlStore
from rtagent.embedded import EmbeddedNode, SystemClock, open_node
from rtagent.errors import HypervisorUnavailable
from rtagent.identity.node_identity import NodeIdentity
from rtagent.model.change import Call
from rtagent.model.request import BuildRequest, Flavor, Instance
from rtagent.ports import Hypervisor, Reporter
from rtagent.rpc.claim_endpoint import MAX_CLAIMS
from rtagent.rpc.client import AgentAPI
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.tracker import ResourceTracker
from rtagent.virt.libvirt.hypervisor import LibvirtHypervisor
from rtagent.virt.simulate import Machine, domain_xml, host_uri, simulate
from tests.servers.daemon import Daemon, DaemonProcess

#: Enough capacity for all the small claims of a run.
ROOM = {"cpu_allocation_ratio": "100000", "ram_allocation_ratio": "100000"}
MACHINE = Machine(hostname="bench")
EMPTY: Mapping[str, Mapping[str, object]] = {}
OWNERS = uuid.UUID("6f9619ff-8b86-d011-b42d-00cf4fc964ff")


def owner(number: int) -> str:
    """Return the uuid of the guest with this number."""
    return str(uuid.uuid5(OWNERS, str(number)))


def host_file(directory: Path, domains: int, machine: Machine = MACHINE) -> Path:
    """Write a simulated host with this many guests of 1 vCPU and 64 MB."""
    file = directory / "host.xml"
    simulate(
        file,
        machine,
        (domain_xml(owner(n), vcpus=1, memory_mb=64, name=f"bench-{n}") for n in range(domains)),
    )
    return file


def connected(hypervisor: LibvirtHypervisor) -> LibvirtHypervisor:
    """Wait for the connection: libvirt's test driver first parses all domains, and a call waits for
    some seconds only.
    """
    for _ in range(20):
        with suppress(HypervisorUnavailable):
            hypervisor.identity()
            break
    return hypervisor


def daemon(
    bench: Bench,
    directory: Path,
    domains: int = 0,
    machine: Machine = MACHINE,
    **groups: dict[str, object],
) -> Daemon:
    """Return an rtagentd that is not started yet."""
    made = Daemon(
        directory,
        bench.rabbitmq.transport_url,
        uri=host_uri(host_file(directory, domains, machine)),
        config={"DEFAULT": {"host": "bench", **ROOM, **groups.pop("DEFAULT", {})}, **groups},
    )
    made.forked = False
    bench.keep(Closing(made))
    return made


class Closing:
    """Closes a daemon at the end of a run."""

    def __init__(self, made: DaemonProcess) -> None:
        self._made = made

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._made.close()


def client(bench: Bench, host: str = "bench") -> AgentAPI:
    """Return the client of a `daemon`."""
    return AgentAPI(bench.transport, host, timeout=60, attempts=1)


def node(
    directory: Path,
    hypervisor: Hypervisor,
    reporter: Reporter | None = None,
    identity: NodeIdentity | None = None,
    host: str = "bench",
    config: Mapping[str, Mapping[str, object]] = EMPTY,
) -> EmbeddedNode:
    """Open a node in this process, on SQLite as in the embedded default.

    :param config: options by group, in addition to those of `settings_in`.
    """
    settings = settings_in(directory, host, config)
    engine = open_engine(settings.database.connection, 5.0)
    sync(engine)
    store = SqlStore(engine)
    made = open_node(
        settings, hypervisor, store, SystemClock(), identity=identity, reporter=reporter
    )
    made.closing.callback(engine.dispose)
    return made


def settings_in(
    directory: Path, host: str = "bench", config: Mapping[str, Mapping[str, object]] = EMPTY
) -> Settings:
    """Return the settings of a node in this process. :param config: further options by group."""
    options = {
        "host": host,
        "state_path": directory,
        "lock_path": directory,
        "reserved_host_memory_mb": 0,
        **ROOM,
    }
    file = directory / "embedded.conf"
    with file.open("w") as written:
        for group, values in {"DEFAULT": options, **config}.items():
            lines = (f"{name} = {value}\n" for name, value in values.items())
            written.write(f"[{group}]\n{''.join(lines)}")
    return read(load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "bench"))


def build(number: int | None = None, memory_mb: int = 64) -> tuple[Call, BuildRequest]:
    """Return a call and its build request, for the guest with this number or for a new one."""
    request = BuildRequest(
        instance=Instance(
            uuid=str(uuid.uuid4()) if number is None else owner(number),
            flavor=Flavor(vcpus=1, memory_mb=memory_mb),
            project_id="bench",
            vm_state="building",
        ),
    )
    return Call(method="instance_claim", operation_id=str(uuid.uuid4()), digest="bench"), request


def filled(directory: Path, claims: int) -> None:
    """Make a claim for each of so many guests, by a node of this process. No guest runs yet: the
    first audit that sees them activates their claims.
    """
    with node(directory, FakeHypervisor(hostname=MACHINE.hostname)) as made:
        made.auditor.run("start")
        for start in range(0, claims, MAX_CLAIMS):
            numbers = range(start, min(start + MAX_CLAIMS, claims))
            made.tracker.create_all(instance_claim, [build(number) for number in numbers])
        granted = len(made.state.claims)
    if granted != claims:
        raise RuntimeError(f"{granted} of {claims} claims were granted")


def activated(made: ResourceTracker, number: int) -> None:
    """Make an active claim for the guest with this number."""
    call, request = build(number)
    made.create(instance_claim, call, request)
    again = Call(method="activate_claim", operation_id=str(uuid.uuid4()), digest="bench")
    made.change(activate_claim, again, call.operation_id)
