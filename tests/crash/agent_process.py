"""Process of an agent without a message bus, which tests kill.

Tracker, audit, endpoint and SQL store are the real ones. Calls and answers pass through a pipe. The
hypervisor and the clock are simulated, and a test can make a commit lose its connection.
"""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from typing import Any

from msgspec.structs import replace
from oslo_context.context import RequestContext
from oslo_messaging.rpc.dispatcher import ExpectedException

from rtagent.api.reply import Reply
from rtagent.audit import Auditor
from rtagent.db.engine import open_engine
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.store import SqlStore
from rtagent.embedded import SystemClock
from rtagent.errors import CommitUnknown, RtAgentError, StoreUnavailable
from rtagent.identity import enrollment, machine
from rtagent.model.node_state import restore
from rtagent.model.observation import Domain
from rtagent.model.policy import Policy
from rtagent.model.stored import Retention, Stored
from rtagent.rpc.duplicates import AgentIdentity, Duplicates
from rtagent.rpc.methods import AGENT_API
from rtagent.rpc.served_agent import ServedAgent
from rtagent.rpc.serving import Endpoint, InFlight
from rtagent.telemetry.telemetry import Telemetry
from rtagent.testing.access import unsigned_access
from rtagent.testing.failpoints import FailingStore, Failpoint, FailpointStore
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.tracker import ResourceTracker
from rtagent.virt.libvirt import guest
from tests.crash.host import Site
from tests.support.workload.deployment import Domains

#: As many calls as may be in flight at once.
THREADS = 8


class MovableClock(SystemClock):
    """The system clock, which a test can set ahead."""

    ahead = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class Child:
    """Parts of the agent: calls of its API, and the test's own calls."""

    def __init__(
        self, site: Site, url: str, state_path: str, failpoint: str, domains: Domains, reserve: int
    ) -> None:
        self._site, self._clock = site, MovableClock()
        telemetry = Telemetry(self._clock)
        engine = open_engine(url, 15)
        point = Failpoint.parse(failpoint or "purge.before:1000000")
        self._store = FailingStore(FailpointStore(SqlStore(engine, point.passed), point))
        self._hypervisor = FakeHypervisor(site.topology, hostname=site.node.hypervisor_hostname)
        self._hypervisor.plug(*site.devices)
        self.set_domains(domains)
        state = restore(self._enroll(state_path), self._policy(reserve))
        self._tracker = ResourceTracker(self._store, self._clock, state, telemetry)
        auditor = Auditor(self._tracker, self._hypervisor, self._clock, telemetry)
        served = ServedAgent(
            tracker=self._tracker,
            auditor=auditor,
            registry=SqlServiceRegistry(engine),
            clock=self._clock,
            version="0",
            guest=guest,
            settle=lambda claim: None,
            confirm=lambda claim, call: None,
            sync_placement=lambda: 0,
            delete_allocation=lambda instance_uuid, reason: None,
            duplicates=Duplicates(
                AgentIdentity(agent_uuid=str(uuid.uuid4()), node_uuid=site.node.uuid, node="crash"),
                site.node.host,
                self._clock,
                lambda error: None,
            ),
            report_host=lambda description, instances: None,
            document=lambda target: Reply(body=b"{}"),
        )
        in_flight = InFlight(self._clock)
        self._endpoint = Endpoint(
            AGENT_API, served, in_flight, self._clock, telemetry, unsigned_access(telemetry)
        )
        auditor.run("start")
        self._tracker.set_policy(state.policy, anew=True)

    def _enroll(self, state_path: str) -> Stored:
        """Enrol as the service does: retry while a transaction of a killed process is open."""
        node = self._site.node
        claimant = enrollment.Claimant(
            node=node,
            writer=machine.writer(state_path),
            compute_id=f"{state_path}/compute_id",
            service_down_time=60,
        )
        watch = enrollment.HeartbeatWatch()
        while True:
            try:
                rule = enrollment.enroll(claimant, watch, self._clock.monotonic())
                return self._store.enroll(node.uuid, node.hypervisor_hostname, rule)
            except StoreUnavailable:
                continue

    def __call__(self, order: str, document: dict[str, Any]) -> Any:
        own: Callable[..., Any] | None = getattr(self, order, None)
        if own is not None:
            return own(**document)
        try:
            context = RequestContext(user_id="caller", roles=["operator"], overwrite=False)
            return getattr(self._endpoint, order)(context, **document)
        except ExpectedException as expected:
            error = expected.exc_info[1]
        raise error

    # -- calls of the test itself -----------------------------------------------------------------

    def set_domains(self, domains: Domains) -> None:
        """Run exactly these domains: (vcpus, memory_mb) by uuid."""
        self._hypervisor.domains = {
            uuid: Domain(uuid=uuid, name=uuid, active=True, vcpus=vcpus, memory_mb=memory_mb)
            for uuid, (vcpus, memory_mb) in domains.items()
        }

    def set_reserve(self, memory_mb: int) -> None:
        """Set a policy that reserves so much memory."""
        self._tracker.set_policy(self._policy(memory_mb))

    def _policy(self, reserved_memory_mb: int) -> Policy:
        return replace(self._site.policy, reserved_memory_mb=reserved_memory_mb)

    def lose_commit(self, done: bool) -> None:
        """Lose the connection in the next commit. :param done: whether that commit is durable."""
        self._store.fail(CommitUnknown, after=done)

    def advance(self, seconds: float) -> None:
        self._clock.ahead += seconds

    def purge(self) -> int:
        """Purge all rows that may be purged; return their number."""
        return self._store.purge(
            self._site.node.uuid, self._tracker.snapshot().revision, Retention()
        )


def run_agent(pipe: Connection, *arguments: Any) -> None:
    """Serve calls from the pipe until the process is killed or the other end is closed."""
    child = Child(*arguments)
    sending = threading.Lock()

    def serve(number: int, order: str, document: dict[str, Any]) -> None:
        try:
            reply: tuple[Any, ...] = ("answer", child(order, document))
        except RtAgentError as error:
            reply = ("error", type(error), error.kwargs)
        except Exception as error:  # passed to the test, which fails with it
            reply = ("defect", repr(error))
        with sending:
            pipe.send((number, *reply))

    with ThreadPoolExecutor(THREADS) as pool:
        pipe.send((0, "answer", None))
        while True:
            try:
                order = pipe.recv()
            except EOFError:
                return
            pool.submit(serve, *order)
