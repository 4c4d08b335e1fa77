"""ServedAgent: what the methods of an agent use, and their replies with claims."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Generic, Protocol, TypeVar

from msgspec.structs import asdict

from rtagent.audit import Auditor, AuditSummary
from rtagent.errors import HypervisorUnavailable, NodeNotReady, RtAgentError
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.consumers import DeletionReason
from rtagent.model.metric import Metric
from rtagent.model.node_state import NodeState
from rtagent.model.observation import NEVER_OBSERVED
from rtagent.pci.pmem import with_namespaces
from rtagent.ports import Clock, ServiceRegistry
from rtagent.rpc import replies
from rtagent.rpc.duplicates import Duplicates
from rtagent.tracker import ResourceTracker

T = TypeVar("T")
#: Seconds for which a caller waits for the audit that it has requested. Less than the agent's stop
#: waits for calls in flight.
AUDIT_TIMEOUT = 25.0


class Guest(Protocol):
    """Libvirt XML that enacts a claim."""

    def xml(self, claim: Claim, /) -> str:
        """Children of ``<domain>``."""

    def node_devices(self, claim: Claim, /) -> tuple[str, ...]:
        """Node devices to be created before the domain is started."""


class Answered(Protocol):
    """A reply of the read API."""

    @property
    def status(self) -> int: ...

    @property
    def body(self) -> bytes: ...


class SharedCall(Generic[T]):
    """Runs a function for its callers, one run at a time. Thread-safe.

    A caller gets the result of a run that begins after its call, because an earlier run may have
    observed the host before a change by the caller. All callers that call during a run share the
    next one, so any number of concurrent calls cause at most two runs.
    """

    def __init__(self, name: str, function: Callable[[], T]) -> None:
        """:param name: of the thread that runs the function."""
        self._name, self._function = name, function
        self._lock = threading.Lock()
        self._next: Future[T] | None = None
        self._running = False

    def result(self, timeout: float) -> T:
        """Return the result of the next run, or raise its error.

        :param timeout: seconds. The run goes on after it.
        :raises TimeoutError: the run has not ended in time.
        """
        with self._lock:
            if self._next is None:
                self._next = Future()
            mine = self._next
            if not self._running:
                # Not in the caller's thread: the caller waits for a bounded time only.
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._running = True  # only now: a thread that cannot be started runs nothing
        return mine.result(timeout)

    def _run(self) -> None:
        """Run the function until no caller waits for another run."""
        while True:
            with self._lock:
                run, self._next = self._next, None
                self._running = run is not None
            if run is None:
                return
            try:
                run.set_result(self._function())
            except BaseException as error:  # raised to the callers
                run.set_exception(error)


class ServedAgent:
    """:ivar started: on the monotonic clock. :ivar check: refuses arguments that are meant for
    another agent, see `Duplicates.check`. The other attributes are parameters.
    """

    def __init__(
        self,
        *,
        tracker: ResourceTracker,
        auditor: Auditor,
        registry: ServiceRegistry,
        clock: Clock,
        version: str,
        guest: Guest,
        settle: Callable[[Claim], None],
        confirm: Callable[[Claim, Call], None],
        sync_placement: Callable[[], int],
        delete_allocation: Callable[[str, DeletionReason], None],
        duplicates: Duplicates,
        report_host: Callable[[bool, bool], None],
        document: Callable[[str], Answered],
        metrics: Callable[[], Sequence[Metric]] = tuple,
        audit_timeout: float = AUDIT_TIMEOUT,
    ) -> None:
        """:param version: of the software. :param guest: makes the documents that enact a claim.
        :param settle: prepares the host for the domain of a claim; raises `Unavailable` if the
            domain must not be started yet.
        :param confirm: waits until Placement has the allocation of a new claim, if it has to;
            raises `AllocationNotWritten`, with the claim aborted.
        :param sync_placement: updates Placement and returns the revision that Placement then has;
            raises `PlacementError`. Callers that wait at the same time share a synchronisation.
        :param delete_allocation: deletes this node's part of an instance's allocations; raises
            `PlacementError`.
        :param duplicates: whether another agent serves this name.
        :param report_host: reports the host: with its description, with all instances.
        :param document: returns the read API's reply to a GET of this path and query.
        :param metrics: returns what the compute monitors have measured.
        :param audit_timeout: seconds for which a caller waits for an audit.
        """
        self.tracker, self.auditor, self.registry = tracker, auditor, registry
        self.clock, self.version, self.started = clock, version, clock.monotonic()
        self.sync_placement, self.delete_allocation = sync_placement, delete_allocation
        self.duplicates, self.report_host = duplicates, report_host
        self.document, self.metrics, self.audit_timeout = document, metrics, audit_timeout
        self._guest, self._settle, self._confirm = guest, settle, confirm
        self.check = partial(duplicates.check, tracker.snapshot)
        self._audits = SharedCall("requested-audit", lambda: auditor.run("request"))

    def audit(self) -> AuditSummary:
        """Return the summary of an audit that begins now.

        :raises HypervisorUnavailable: it did not end in time.
        """
        try:
            return self._audits.result(self.audit_timeout)
        except TimeoutError as error:
            raise HypervisorUnavailable(
                f"the requested audit has not ended within {self.audit_timeout:g} s: it goes on,"
                " and its summary will be in the agent's log"
            ) from error

    def running(self) -> frozenset[str]:
        """Return the domains that run here, as of the last audit.

        :raises NodeNotReady: the host was never observed.
        """
        domains = self.auditor.domains
        if domains is NEVER_OBSERVED:
            raise NodeNotReady("it is not known yet which guests run here")
        return frozenset(uuid for uuid, domain in domains.items() if domain.active)

    # -- replies with claims -----------------------------------------------------------------------

    def claim(self, claim: Claim) -> replies.Claim:
        """The claim with the documents that enact it, on the host as it is now."""
        claim = with_namespaces(claim, self.tracker.snapshot())
        guest, node_devices = self._guest.xml(claim), self._guest.node_devices(claim)
        return replies.Claim(**asdict(claim), guest=guest, node_devices=node_devices)

    def created(self, claim: Claim, call: Call) -> replies.Claim:
        """The same, for the reply to the call that created the claim.

        :raises AllocationNotWritten: the claim was aborted.
        """
        self._confirm(claim, call)
        return self.claim(claim)

    def answer(self, claim: Claim | RtAgentError, call: Call) -> replies.ClaimAnswer:
        """The same, as one answer of several; or the error."""
        try:
            if isinstance(claim, RtAgentError):
                raise claim
            return replies.ClaimAnswer(claim=self.created(claim, call))
        except RtAgentError as error:
            return replies.ClaimAnswer(error=error.as_dict())

    def incoming(self, claim: Claim, call: Call) -> replies.Claim:
        """The same, for a new claim after which the caller may start the domain.

        :raises Unavailable: the host is not ready for the domain, or the claim was aborted.
        """
        self._confirm(claim, call)
        return self.startable(claim)

    def startable(self, claim: Claim) -> replies.Claim:
        """The same, for a reply after which the caller may start the domain.

        :raises Unavailable: the host is not ready for the domain.
        """
        self._settle(claim)
        return self.claim(claim)

    def claims(self, claims: Iterable[Claim], state: NodeState) -> replies.Claims:
        """Several claims that were read from one state."""
        return replies.Claims(
            claims=tuple(map(self.claim, claims)), revision=state.revision, stale=self.tracker.stale
        )
