"""Hosts, requests and clocks: the values that most tests build."""

import itertools
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeVar
from uuid import UUID

from msgspec.structs import replace

from rtagent.model.change import Call, Change
from rtagent.model.claim import Claim
from rtagent.model.consumers import Parts, consumers_of, owner_of
from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState, restore
from rtagent.model.policy import NumaPolicy, Policy
from rtagent.model.request import BuildRequest, Flavor, Instance, Limits
from rtagent.model.stored import Stored
from rtagent.model.topology import Topology
from tests.support.numa_hosts import LARGE, cell

T = TypeVar("T")

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
NODE = Node(uuid=str(UUID(int=1)), host="cn1", hypervisor_hostname="cn1.example", host_ip="::1")
#: Two cells of four CPUs, each core with two threads, and pages of 2 MB and of 4 KiB.
CELLS = tuple(
    replace(cell(number, cores=2, huge={LARGE: 512}), distances={number: 10, 1 - number: 20})
    for number in (0, 1)
)
TOPOLOGY = Topology(cpus=frozenset(range(8)), memory_mb=16384, disk_mb=100 * 1024, cells=CELLS)
_ids = itertools.count(1000)


def uid(number: int | None = None) -> str:
    """Return a uuid: a new one, or that of a number below 1000, which no new one has."""
    return str(UUID(int=next(_ids) if number is None else number))


@dataclass
class ManualClock:
    """A clock that a test advances."""

    seconds: float = 0.0
    start: datetime = field(default=NOON)

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


def copied(value: T) -> T:
    """Copy an object and its own dicts, lists and sets, but not what these have."""
    twin = copy(value)
    for name, part in vars(value).items():
        if isinstance(part, dict | list | set):
            setattr(twin, name, copy(part))
    return twin


def host(topology: Topology | None = TOPOLOGY, **policy: object) -> NodeState:
    """Make a node with 8 CPUs, 16 GB, 100 GB of disk, nothing reserved, no overcommit."""
    ratios = {k: Decimal(str(v)) if k.endswith("ratio") else v for k, v in policy.items()}
    return NodeState(node=NODE, policy=Policy(**ratios), topology=topology)


def stored(state: NodeState) -> Stored:
    """Return the rows that a store has for this state."""
    return Stored(
        node=state.node,
        revision=state.revision,
        epoch=state.epoch,
        claims=tuple(state.claims.values()),
        domain_usages=tuple(state.domain_usages.values()),
        migrations=tuple(state.migrations.values()),
        devices=tuple(state.devices.values()),
        resource_inventories=state.resource_inventories,
        topology=state.topology,
        failed_builds=state.failed_builds,
        disk_available_least=state.disk_available_least,
        outbox=tuple(state.outbox.values()),
    )


def with_claims(
    state: NodeState,
    claims: Iterable[Claim],
    domain_usages: Iterable[DomainUsage] = (),
    revision: int = 1,
) -> NodeState:
    """Return the node's state with these claims and domain usages, as loaded from a store."""
    rows = replace(
        stored(state), claims=tuple(claims), domain_usages=tuple(domain_usages), revision=revision
    )
    return restore(rows, state.policy)


def domain_usage(
    owner: str | None = None,
    vcpus: int = 1,
    memory_mb: int = 1,
    *,
    active: bool = True,
    occupancy: Occupancy | None = None,
) -> DomainUsage:
    """Return what a domain uses."""
    return DomainUsage(
        domain_uuid=owner or uid(),
        name="vm",
        active=active,
        vcpus=vcpus,
        memory_mb=memory_mb,
        occupancy=occupancy or Occupancy(),
    )


def observed(state: NodeState, *usages: DomainUsage) -> NodeState:
    """Return the state after an audit has recorded what these domains use."""
    return state.fold(Change(cause="audit", at=NOON, domain_usages=usages))


def consumer_allocations(state: NodeState, consumer_uuid: str) -> Parts:
    """What Placement should have for a consumer on the node's providers; {}: nothing."""
    found = consumers_of(state, owner_of(state, consumer_uuid)).get(consumer_uuid)
    return found.parts if found else {}


#: CPUs 2 to 7 are dedicated; 0 and 1, one whole core, are shared.
DEDICATED = frozenset({2, 3, 4, 5, 6, 7})
PINNING = NumaPolicy(cpu_shared_set=frozenset({0, 1}), cpu_dedicated_set=DEDICATED)
PINNED = {"hw:cpu_policy": "dedicated"}


def call(
    method: str = "instance_claim", operation_id: str | None = None, digest: str = "d"
) -> Call:
    return Call(method=method, operation_id=operation_id or uid(), digest=digest)


def request(
    vcpus: int = 1,
    memory_mb: int = 1024,
    root_gb: int = 0,
    *,
    owner: str | None = None,
    limits: Limits | None = None,
    extra_resource: dict[str, int | tuple[str, ...]] | None = None,
    instance: dict[str, object] | None = None,
    **flavor: object,
) -> BuildRequest:
    """Make a request to build one instance."""
    return BuildRequest(
        instance=Instance(
            uuid=owner or uid(),
            flavor=Flavor(vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb, **flavor),
            **(instance or {}),
        ),
        limits=limits or Limits(),
        extra_resource=extra_resource or {},
    )
