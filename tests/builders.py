"""Values for tests, as short to write as they are to read."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from rtagent.model.change import Call
from rtagent.model.flavor import Flavor
from rtagent.model.host import HostState
from rtagent.model.instance import Instance
from rtagent.model.node import Node
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest, Limits
from rtagent.model.topology import Cell, Topology

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
NODE = Node(uuid=str(UUID(int=1)), host="cn1", hypervisor_hostname="cn1.example", host_ip="::1")
#: Two cells of four CPUs, each core with two threads, and pages of 2 MB besides the small ones.
CELLS = tuple(
    Cell(
        id=number,
        cpus=frozenset(range(number * 4, number * 4 + 4)),
        memory_mb=8192,
        siblings=tuple(frozenset({n, n + 1}) for n in (number * 4, number * 4 + 2)),
        sockets=frozenset({number}),
        distances={number: 10, 1 - number: 20},
        pages={4: (8192 - 1024) * 256, 2048: 512},
    )
    for number in (0, 1)
)
TOPOLOGY = Topology(cpus=frozenset(range(8)), memory_mb=16384, disk_mb=100 * 1024, cells=CELLS)
_ids = itertools.count(1000)


def uid(number: int | None = None) -> str:
    """A uuid: a new one, or the one that this number makes."""
    return str(UUID(int=next(_ids) if number is None else number))


@dataclass
class ManualClock:
    """A clock that moves when it is told to."""

    seconds: float = 0.0
    start: datetime = field(default=NOON)

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


def host(topology: Topology | None = TOPOLOGY, **policy: object) -> HostState:
    """A node with 8 CPUs, 16 GB, 100 GB of disk, nothing reserved, no overcommit."""
    ratios = {k: Decimal(str(v)) if k.endswith("ratio") else v for k, v in policy.items()}
    return HostState(node=NODE, policy=Policy(**ratios), topology=topology)


#: CPUs 2 to 7 are for one guest each; 0 and 1, one whole core, are shared.
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
    claim: str | None = None,
    limits: Limits | None = None,
    extra_resource: dict[str, int | tuple[str, ...]] | None = None,
    instance: dict[str, object] | None = None,
    **flavor: object,
) -> BuildRequest:
    """A build of one instance."""
    return BuildRequest(
        claim_uuid=claim or uid(),
        instance=Instance(
            uuid=owner or uid(),
            flavor=Flavor(vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb, **flavor),
            **(instance or {}),
        ),
        limits=limits or Limits(),
        extra_resource=extra_resource or {},
    )
