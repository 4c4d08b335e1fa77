"""An agent with everything but a bus: tracker, audit and endpoint on a store in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oslo_context.context import RequestContext
from oslo_messaging.rpc.dispatcher import ExpectedException

from rtagent.audit import Auditor
from rtagent.db.failing import FailingStore
from rtagent.db.memory import MemoryServiceRegistry, MemoryStore
from rtagent.kernel import restored
from rtagent.model.node import NodeRecord
from rtagent.model.policy import Policy
from rtagent.ports import Store
from rtagent.rpc.endpoint import Endpoint
from rtagent.rpc.in_flight import InFlight
from rtagent.telemetry.telemetry import Telemetry
from rtagent.tracker import ResourceTracker
from rtagent.virt.fake import FakeHypervisor
from rtagent.virt.libvirt import guest
from tests.builders import NODE, TOPOLOGY, ManualClock, uid

VERSION = "1.2.3"


class Agent:
    """A node with 8 CPUs, 16 GB and 100 GB of disk that has had its first audit."""

    def __init__(
        self, clock: Any = None, wrap: Callable[[Store], Store] = lambda store: store
    ) -> None:
        """:param wrap: puts something between the tracker and the store."""
        self.clock = clock or ManualClock()
        self.memory = MemoryStore()
        self.store = FailingStore(wrap(self.memory))
        self.hypervisor = FakeHypervisor(TOPOLOGY, hostname=NODE.hypervisor_hostname)
        self.registry = MemoryServiceRegistry()
        self.telemetry = Telemetry(self.clock)
        record = NodeRecord(node=NODE, epoch=1, revision=0)
        stored = self.store.enroll(NODE.uuid, NODE.hypervisor_hostname, lambda _: record)
        self.tracker = ResourceTracker(
            self.store, self.clock, restored(stored, Policy()), self.telemetry
        )
        self.auditor = Auditor(self.tracker, self.hypervisor, self.clock, self.telemetry)
        self.auditor.run("start")
        self.in_flight = InFlight(self.clock)
        self.endpoint = Endpoint(
            self.tracker,
            self.auditor,
            self.registry,
            self.clock,
            self.telemetry,
            VERSION,
            self.in_flight,
            guest.xml,
        )

    def invoke(self, method: str, /, **document: Any) -> Any:
        """The method's answer, or the error that its caller gets."""
        return self.invoke_as(RequestContext(overwrite=False), method, **document)

    def invoke_as(self, context: RequestContext, method: str, /, **document: Any) -> Any:
        try:
            return getattr(self.endpoint, method)(context, **document)
        except ExpectedException as expected:
            error = expected.exc_info[1]
        raise error

    def sample(self, name: str, **labels: str) -> float | None:
        """The value of one of the agent's metrics."""
        return self.telemetry.metrics.registry.get_sample_value(f"rtagent_{name}", labels)


def build(vcpus: int = 1, memory_mb: int = 1024, **more: Any) -> dict[str, Any]:
    """The arguments of a claim for one new instance."""
    flavor = {"vcpus": vcpus, "memory_mb": memory_mb}
    return {"operation_id": uid(), "instance": {"uuid": uid(), "flavor": flavor}, **more}
