"""States to look at, made through the core's own rules."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from prometheus_client import CollectorRegistry

from rtagent import claims
from rtagent.api.sources import Sources
from rtagent.errors import RtAgentError
from rtagent.model.change import Call, Change
from rtagent.model.decision import Granted
from rtagent.model.flavor import Flavor
from rtagent.model.health import Check, Status
from rtagent.model.holding import Holding
from rtagent.model.host import HostState
from rtagent.model.instance import Instance
from rtagent.model.node import Node
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest
from rtagent.model.topology import Topology

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
    """A uuid to be recognised by its number."""
    return f"00000000-0000-4000-8000-{number:012d}"


def empty() -> HostState:
    """A host with nothing on it."""
    return HostState(node=NODE, policy=POLICY, topology=TOPOLOGY, epoch=1)


def claimed(state: HostState, number: int, *, active: bool = False) -> HostState:
    """With one more claim (uuid `number`, for instance 100 + `number`): 2 vCPUs, 1024 MB, 10 GB."""
    request = BuildRequest(
        claim_uuid=uuid(number),
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


def held(state: HostState, number: int, *, vcpus: int, memory_mb: int) -> HostState:
    """With a domain that no claim agrees with."""
    holding = Holding(
        domain_uuid=uuid(number),
        name=f"instance-{number}",
        active=True,
        vcpus=vcpus,
        memory_mb=memory_mb,
    )
    return state.fold(Change(cause="audit", at=NOW, holdings=(holding,)))


def populated() -> HostState:
    """Claims 1 (active, its domain has drifted) and 2 (building), and an orphan."""
    state = claimed(claimed(empty(), 1, active=True), 2)
    state = held(state, 101, vcpus=4, memory_mb=1024)
    return held(state, 900, vcpus=3, memory_mb=2048)


def sources(
    state: HostState | None = None,
    *,
    stale: bool = False,
    checks: tuple[Check, ...] = (Check(part="store", status=Status.PASS, time=NOW),),
    held_back: RtAgentError | None = None,
) -> Sources:
    """What a read API shows, held still."""
    shown = populated() if state is None else state
    return Sources(
        snapshot=lambda: shown,
        stale=lambda: stale,
        checks=lambda: checks,
        held_back=lambda: held_back,
        registry=CollectorRegistry(),
    )


def _call(number: int) -> Call:
    return Call(method="test", operation_id=uuid(number), digest="")


def _after(state: HostState, decision: object) -> HostState:
    assert isinstance(decision, Granted), decision
    return state.fold(decision.change)
