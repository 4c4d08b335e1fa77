"""A scheduler's RPC endpoint without a message bus, with what it serves in memory."""

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import oslo_messaging
from msgspec.structs import replace
from oslo_context.context import RequestContext

from rtagent.capacity.advice import Advice, Move
from rtagent.capacity.fleet import HostCount, groups, summary
from rtagent.errors import RtAgentError
from rtagent.model.node import Aggregate
from rtagent.model.node_state import NodeState
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec, Selection, Selections
from rtagent.ports import Service
from rtagent.rpc import SCHEDULER
from rtagent.rpc.client import SchedulerAPI
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.methods import SCHEDULER_API
from rtagent.rpc.scheduler_endpoint import SchedulerPong, ServedScheduler
from rtagent.rpc.serving import CheckCaller, Endpoint, InFlight
from rtagent.rpc.trust.access import Authenticate
from rtagent.scheduler import aggregate_rules as rules
from rtagent.scheduler.explanation import ExplainedHost, Explanation
from rtagent.scheduler.fleet_counts import FleetFlavor
from rtagent.scheduler.report import description_of, digest_of, instances_digest, report_of
from rtagent.scheduler.report_documents import report_document
from rtagent.telemetry.telemetry import Telemetry
from rtagent.testing.access import accept_unsigned, unsigned_access
from rtagent.testing.memory_store import MemoryServiceRegistry
from tests.support.host_states import node_named
from tests.support.hosts import ManualClock, host, uid
from tests.support.rpc import invoke
from tests.support.workload.deployment import open_transport


class Hosts:
    """Records the messages of agents. :ivar taken: the arguments of each message.
    :ivar aside: host, node and kind of each message that cannot be used.
    """

    def __init__(self) -> None:
        self.aside: list[tuple[str, str, str]] = []
        self.taken: list[tuple[Any, ...]] = []

    def update_host_state(self, *arguments: Any) -> None:
        self.taken.append(arguments)

    def change_instances(self, *arguments: Any) -> None:
        self.taken.append(arguments)

    def set_aside(self, host: str, node_uuid: str, kind: str, why: str) -> None:
        self.aside.append((host, node_uuid, kind))


class Selecting:
    """Selects one host for everything, or raises an error.

    :ivar error: raised by every selection, if not None. :ivar forgotten: operation ids.
    :ivar known: operation ids of assumed claims. :ivar explained: the hosts of an explanation.
    """

    def __init__(self) -> None:
        self.error: RtAgentError | None = None
        self.forgotten: list[str] = []
        self.known: set[str] = set()
        self.specs: list[RequestSpec] = []
        self.explained: tuple[ExplainedHost, ...] = ()

    def select_destinations(
        self,
        spec: RequestSpec,
        instance_uuids: Sequence[str],
        alternates: bool = False,
        claim: bool = True,
    ) -> tuple[Selections, ...]:
        if self.error is not None:
            raise self.error
        self.specs.append(spec)
        others = (selection("cn2"),) if alternates else ()
        return tuple(
            Selections(instance_uuid=uuid, selected=selection("cn1"), alternates=others)
            for uuid in instance_uuids
        )

    def explain(self, spec: RequestSpec, instance_uuid: str = uid()) -> Explanation:
        self.specs.append(spec)
        return Explanation(filters=("ComputeFilter",), hosts=self.explained)

    def count_room(self, spec: RequestSpec, by: str | None) -> FleetFlavor:
        self.specs.append(spec)
        counts = [HostCount(host="cn1", nodename="cn1", uuid=uid(), fits=3)]
        return FleetFlavor(
            name="",
            flavor=spec.flavor,
            summary=summary(counts),
            groups=tuple(groups(counts, by)) if by else (),
        )

    def advise(self, spec: RequestSpec, count: int) -> Advice:
        self.specs.append(spec)
        move = Move(
            server=uid(),
            name="web",
            kind="migration",
            why_cold="it is stopped",
            source="cn1",
            destination="cn2",
            memory_mb=512,
            disk_mb=0,
        )
        return Advice(room=0, moves=(move,), room_after=count)

    def spec_of(self, flavor: str) -> RequestSpec:
        return RequestSpec(flavor=Flavor(name=flavor, vcpus=1, memory_mb=512))

    def forget_claim(self, operation_id: str) -> bool:
        self.forgotten.append(operation_id)
        return operation_id in self.known


def selection(host: str) -> Selection:
    """Return a selection of this host."""
    return Selection(host=host, nodename=host, provider_uuid=uid(), operation_id=uid())


class MemoryAggregates:
    """Aggregates in memory. :ivar rereads: how often they were read again."""

    def __init__(self) -> None:
        self._known: dict[str, Aggregate] = {}
        self.rereads = 0

    def list(self) -> tuple[Aggregate, ...]:
        return tuple(sorted(self._known.values(), key=lambda each: each.name))

    def create(self, name: str, metadata: Mapping[str, str], uuid: str) -> Aggregate:
        return self._keep(Aggregate(uuid=uuid, name=name, metadata=metadata))

    def change(
        self, aggregate: str, rule: Callable[..., Aggregate], *arguments: Any, **named: Any
    ) -> Aggregate:
        return self._keep(rule(self._find(aggregate), *arguments, **named))

    def delete(self, aggregate: str) -> Aggregate:
        found = self._find(aggregate)
        rules.check_empty(found)
        return self._known.pop(found.uuid)

    def reread(self) -> None:
        self.rereads += 1

    def _find(self, aggregate: str) -> Aggregate:
        return rules.find(self.list(), aggregate)

    def _keep(self, changed: Aggregate) -> Aggregate:
        rules.check(changed, self.list())
        self._known[changed.uuid] = changed
        return changed


class MemoryServices:
    """The services of any hosts."""

    def __init__(self) -> None:
        self._registry = MemoryServiceRegistry()

    def get(self, host: str) -> Service:
        return Service(host=host, binary="rtagentd")

    def force_down(self, host: str, forced_down: bool) -> Service:
        return self._registry.set_forced_down(host, forced_down)


class SchedulerRpc:
    """A scheduler's endpoint. :ivar not_ready: the error that selections get, or None.
    :ivar unknown_claims: what the other schedulers are asked to forget.
    """

    def __init__(
        self,
        authenticate: Authenticate = accept_unsigned,
        check_caller: CheckCaller = lambda *_: None,
    ) -> None:
        clock = ManualClock()
        self.not_ready: RtAgentError | None = None
        self.unknown_claims: list[str] = []
        self.hosts, self.selecting, self.aggregates = Hosts(), Selecting(), MemoryAggregates()
        self.telemetry = Telemetry(clock)
        served = ServedScheduler(
            scheduler=cast(Any, self.selecting),
            count_room=self.selecting.count_room,
            spec_of=self.selecting.spec_of,
            hosts=cast(Any, self.hosts),
            aggregates=self.aggregates,
            services=MemoryServices(),
            pong=self._pong,
            not_ready=lambda: self.not_ready,
            unknown_claim=self.unknown_claims.append,
        )
        access = unsigned_access(self.telemetry, authenticate)
        self.endpoint = Endpoint(
            SCHEDULER_API,
            served,
            InFlight(clock),
            clock,
            self.telemetry,
            access,
            check_caller=check_caller,
        )

    def invoke(self, method: str, /, **document: Any) -> Any:
        """Call a method as oslo.messaging does; its reply, or its error."""
        operator = RequestContext(roles=["operator"], overwrite=False)
        return invoke(self.endpoint, operator, method, document)

    def sample(self, name: str, **labels: str) -> float | None:
        """Return the value of one of the metrics."""
        return self.telemetry.metrics.registry.get_sample_value(f"rtagent_{name}", labels)

    def _pong(self) -> SchedulerPong:
        return SchedulerPong(
            version="1.2.3",
            host="s1",
            scheduler_uuid=uid(),
            uptime=1.0,
            hosts=0,
            complete=True,
            time="2026-01-01T12:00:00.000Z",
        )


def spec(**more: Any) -> dict[str, Any]:
    """Return a request spec of one plain instance."""
    return {"flavor": {"vcpus": 1, "memory_mb": 512}, **more}


class SchedulerBus:
    """The message bus of the schedulers. :ivar api: the client of a conductor.
    :ivar transport: for other clients.
    """

    def __init__(self, url: str) -> None:
        self.transport = open_transport(url, rabbit_interval_max=1)
        self.api = SchedulerAPI(self.transport, timeout=30)
        self.context = RequestContext(user_id="alice", roles=["operator"], overwrite=False)
        self._client = oslo_messaging.get_rpc_client(
            self.transport,
            oslo_messaging.Target(topic=SCHEDULER, version="1.0", fanout=True),
            serializer=ContextSerializer(),
        )

    def cast(self, method: str, **document: Any) -> None:
        """Cast a message to every scheduler."""
        self._client.cast(self.context, method, **document)

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a scheduler."""
        return getattr(self.api, method)(self.context, *arguments, **named)

    def report(self, *names: str, state: NodeState | None = None, revision: int = 1) -> None:
        """Report hosts with 8 CPUs, 16 GB and 100 GB of disk, all free.

        :param state: of every host, in place of that.
        """
        for name in names:
            made = replace(
                state or host(), node=node_named(name), epoch=1, revision=revision, claims={}
            )
            self.cast("update_host_state", report=_document(made, ()))

    def close(self) -> None:
        """Close the connections."""
        self.transport.cleanup()


def _document(state: NodeState, instances: Sequence[str]) -> dict[str, Any]:
    description = description_of(state)
    report = report_of(state, digest_of(description), instances_digest=instances_digest(instances))
    return report_document(replace(report, description=description))
