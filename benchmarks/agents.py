"""Agents to measure: as a process of their own, or their parts in this one."""

from __future__ import annotations

import uuid
from decimal import Decimal
from pathlib import Path

from benchmarks.bench import Bench
from rtagent.clock import SystemClock
from rtagent.db.engine import open_engine
from rtagent.db.migrate import sync
from rtagent.db.store import SqlStore
from rtagent.kernel import restored
from rtagent.model.change import Call
from rtagent.model.flavor import Flavor
from rtagent.model.instance import Instance
from rtagent.model.node import Node, NodeRecord, Writer
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest
from rtagent.ports import Reporter
from rtagent.rpc.client import AgentAPI
from rtagent.tracker import ResourceTracker
from rtagent.virt.simulate import Machine, domain_xml, host_uri, simulate
from tests.servers.daemon import Daemon

#: Room for as many small claims as a run makes.
POLICY = Policy(
    cpu_allocation_ratio=Decimal(100_000),
    ram_allocation_ratio=Decimal(100_000),
    disk_allocation_ratio=Decimal(1),
)
ROOM = {"cpu_allocation_ratio": "100000", "ram_allocation_ratio": "100000"}
MACHINE = Machine(hostname="bench")
OWNERS = uuid.UUID("6f9619ff-8b86-d011-b42d-00cf4fc964ff")


def owner(number: int) -> str:
    """The uuid of the number-th guest."""
    return str(uuid.uuid5(OWNERS, str(number)))


def host_file(directory: Path, domains: int, machine: Machine = MACHINE) -> Path:
    """A simulated host on which so many guests of 1 vCPU and 64 MB run."""
    file = directory / "host.xml"
    simulate(
        file,
        machine,
        (domain_xml(owner(n), vcpus=1, memory_mb=64, name=f"bench-{n}") for n in range(domains)),
    )
    return file


def daemon(
    bench: Bench,
    directory: Path,
    domains: int = 0,
    machine: Machine = MACHINE,
    **groups: dict[str, object],
) -> Daemon:
    """A real rtagentd, not started yet."""
    made = Daemon(
        directory,
        bench.rabbitmq.transport_url,
        uri=host_uri(host_file(directory, domains, machine)),
        config={"DEFAULT": {"host": "bench", **ROOM, **groups.pop("DEFAULT", {})}, **groups},
    )
    bench.keep(_Closing(made))
    return made


class _Closing:
    def __init__(self, made: Daemon) -> None:
        self._made = made

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._made.close()


def client(bench: Bench) -> AgentAPI:
    """The client of `daemon`."""
    return AgentAPI(bench.transport, "bench", timeout=60, attempts=1)


def tracker(directory: Path, reporter: Reporter | None = None) -> ResourceTracker:
    """A tracker in this process, on SQLite as the embedded default has it."""
    engine = open_engine(f"sqlite:///{directory}/rtagent.sqlite", 5.0)
    sync(engine)
    store = SqlStore(engine)
    node = Node(uuid=owner(-1), host="bench", hypervisor_hostname="bench")
    writer = Writer(machine_id="m", boot_id="b", state_path=str(directory))
    record = NodeRecord(node=node, epoch=1, revision=0, writer=writer)
    stored = store.enroll(node.uuid, node.hypervisor_hostname, lambda records: record)
    return ResourceTracker(store, SystemClock(), restored(stored, POLICY), reporter)


def build(number: int | None = None, memory_mb: int = 64) -> tuple[BuildRequest, Call]:
    """A request and the call that brings it: of the number-th guest, or of a new one."""
    claim = str(uuid.uuid4())
    request = BuildRequest(
        claim_uuid=claim,
        instance=Instance(
            uuid=str(uuid.uuid4()) if number is None else owner(number),
            flavor=Flavor(vcpus=1, memory_mb=memory_mb),
            project_id="bench",
            vm_state="building",
        ),
    )
    return request, Call(method="instance_claim", operation_id=claim, digest="bench")


def activated(made: ResourceTracker, number: int) -> None:
    """The number-th guest's claim, active."""
    request, call = build(number)
    made.instance_claim(request, call)
    again = Call(method="activate_claim", operation_id=str(uuid.uuid4()), digest="bench")
    made.activate_claim(request.claim_uuid, again)
