"""States for the read API, made by the rules of the core."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from prometheus_client import CollectorRegistry

from rtagent import claims
from rtagent.api.routes import NO_AUDIT, Sources
from rtagent.errors import RtAgentError
from rtagent.model.change import Call, Change
from rtagent.model.decision import Granted
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.flavor import Flavor
from rtagent.model.health import Check, Status
from rtagent.model.instance import Instance
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest
from rtagent.model.topology import Topology
from tests.support.hosts import uid
from tests.support.move_host import Host, facts

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
NODE = Node(
    uuid="11111111-0000-4000-8000-000000000001", host="cloud-7", hypervisor_hostname="kvm-7.example"
)
TOPOLOGY = Topology(
    cpus=frozenset(range(8)), memory_mb=16384, disk_mb=102400, hypervisor_type="QEMU"
)
POLICY = Policy(
    reserved_cpus=1,
    reserved_memory_mb=512,
    reserved_disk_mb=1024,
    cpu_allocation_ratio=Decimal(4),
)


def uuid(number: int) -> str:
    """A uuid that ends with the number."""
    return f"00000000-0000-4000-8000-{number:012d}"


def empty() -> NodeState:
    """A host without claims and domains."""
    return NodeState(node=NODE, policy=POLICY, topology=TOPOLOGY, epoch=1)


def claimed(state: NodeState, number: int, *, active: bool = False) -> NodeState:
    """Add a claim (uuid `number`, for instance 100 + `number`): 2 vCPUs, 1024 MB, 10 GB."""
    request = BuildRequest(
        instance=Instance(
            uuid=uuid(100 + number),
            display_name=f"vm-{number}",
            flavor=Flavor(vcpus=2, memory_mb=1024, root_gb=10),
        ),
    )
    now = NOW + timedelta(seconds=number)
    state = _after(state, claims.build(state, request, _call(number), now))
    if active:
        state = _after(state, claims.activate(state, uuid(number), _call(number), now))
    return state


def with_domain(state: NodeState, number: int, *, vcpus: int, memory_mb: int) -> NodeState:
    """Add a domain that differs from its claim or has none."""
    domain_usage = DomainUsage(
        domain_uuid=uuid(number),
        name=f"instance-{number}",
        active=True,
        vcpus=vcpus,
        memory_mb=memory_mb,
    )
    return state.fold(Change(cause="audit", at=NOW, domain_usages=(domain_usage,)))


def populated() -> NodeState:
    """Claims 1 (active, with drift) and 2 (building), and an orphan."""
    state = claimed(claimed(empty(), 1, active=True), 2)
    state = with_domain(state, 101, vcpus=4, memory_mb=1024)
    return with_domain(state, 900, vcpus=3, memory_mb=2048)


def moved() -> Host:
    """A host with a confirmed move of a guest from it, and a claim for a move of another to it."""
    here = Host.named(1)
    here.build()
    gone = facts("migration", source_compute="h1", dest_compute="h2")
    here.start_move_out(gone)
    here.drop_at_source(gone)
    here.claim_move(facts("live-migration", source_compute="h3"), owner=uid(78))
    return here


def sources(
    state: NodeState | None = None,
    *,
    stale: bool = False,
    checks: tuple[Check, ...] = (Check(part="store", status=Status.PASS, time=NOW),),
    creation_error: RtAgentError | None = None,
) -> Sources:
    """Sources that always show the same."""
    shown = populated() if state is None else state
    return Sources(
        snapshot=lambda: shown,
        stale=lambda: stale,
        checks=lambda: checks,
        creation_error=lambda: creation_error,
        registry=CollectorRegistry(),
        allocations=lambda: NO_AUDIT,
    )


def _call(number: int) -> Call:
    return Call(method="test", operation_id=uuid(number), digest="")


def _after(state: NodeState, decision: object) -> NodeState:
    assert isinstance(decision, Granted), decision
    return state.fold(decision.change)
