"""Run: one operation while a conductor works on it, with the calls that its steps make. Progress:
the results of these steps. It is durable before each step.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from msgspec.structs import replace

from rtagent.conductor.errors import HookFailed, InvalidReply, OperationTaken
from rtagent.conductor.patience import Patience, background
from rtagent.conductor.ports import Agents, Allocations, Enactor, Hooks, SchedulerPort, ServerStore
from rtagent.errors import NodeNotFound, RtAgentError
from rtagent.model.base import Converter, Value
from rtagent.model.claim import Claim
from rtagent.model.guest import GuestDomain, GuestState
from rtagent.model.migration import MigrationFacts
from rtagent.model.server import BUILDING, Place, RequestSpec, Selection, Server, ServerOperation
from rtagent.ports import Clock
from rtagent.scheduler.claim_template import instance_of


class Tried(Value, frozen=True, kw_only=True):
    """A host that was tried. :ivar error: why it was given up, as a document."""

    host: str
    error: Mapping[str, Any]


class Progress(Value, frozen=True, kw_only=True):
    """The results of the steps of an operation.

    :ivar spec: the request, with the new flavor of a resize.
    :ivar was: the server's vm_state before the operation.
    :ivar source: where the server was before a move; or the host that an owed call is for.
    :ivar selection: the host of this attempt. :ivar alternates: hosts to try next.
    :ivar allocations: of an evacuated server, before the first selection; None: it is not one, or
        the conductor writes none.
    :ivar consumer_generation: the highest generation of the server's consumer in Placement with
        which a write was decided. A late write may still have it.
    :ivar migration: the move's record. :ivar claim: at the selected host, as returned last.
    :ivar tried: hosts that were given up.
    :ivar again: after the undo another host is tried.
    :ivar call: of an owed call: the method and its arguments.
    :ivar places: of a forced delete: the claims to clear. :ivar migrations: and the migrations that
        may have allocations. :ivar reason: why it was forced.
    """

    spec: RequestSpec
    was: str
    source: Place | None = None
    selection: Selection | None = None
    alternates: tuple[Selection, ...] = ()
    allocations: Mapping[str, Any] | None = None
    consumer_generation: int = 0
    migration: MigrationFacts | None = None
    claim: Mapping[str, Any] | None = None
    tried: tuple[Tried, ...] = ()
    again: bool = False
    call: tuple[str, Mapping[str, Any]] | None = None
    places: tuple[Place, ...] = ()
    migrations: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def dest(self) -> Place:
        """The claim at the selected host."""
        assert self.claim is not None
        return self.selected

    @property
    def selected(self) -> Place:
        """The selected host, with its claim as far as it is known."""
        assert self.selection is not None
        claim = self.claim or {"uuid": self.selection.operation_id}
        return Place(host=self.selection.host, node_uuid=self.selection.provider_uuid, claim=claim)

    def document(self) -> dict[str, Any]:
        """Return it as JSON primitives."""
        found: dict[str, Any] = msgspec.to_builtins(self, str_keys=True)
        return found


_progress = Converter(Progress, strict=False, str_keys=True)


def progress_of(document: Mapping[str, Any]) -> Progress:
    """Return the progress that `Progress.document` made a document of."""
    return _progress.convert(document)


T = TypeVar("T")
_claims = Converter(Claim, strict=False, str_keys=True)


class ConductorOptions(Value, frozen=True, kw_only=True):
    """:ivar max_attempts: the number of hosts that are tried.
    :ivar host_timeout: seconds for which a call to one host is repeated.
    :ivar operation_timeout: seconds for which one run of an operation repeats calls.
    :ivar lease_renew_interval: seconds. :ivar takeover_time: seconds without a beat.
    """

    max_attempts: int = 3
    host_timeout: float = 60.0
    operation_timeout: float = 3600.0
    lease_renew_interval: float = 60.0
    takeover_time: float = 45.0
    allow_resize_to_same_host: bool = False


class Outside(Value, frozen=True, kw_only=True):
    """Everything outside of the conductor that steps call.

    :ivar allocations: None: the conductor writes no allocations.
    """

    scheduler: SchedulerPort
    agents: Agents
    enactor: Enactor
    hooks: Hooks
    allocations: Allocations | None = None


def claims_of(places: Iterable[Place]) -> tuple[str, ...]:
    """Return the uuids of claims."""
    return tuple(place.claim["uuid"] for place in places)


class Run:
    """One operation while it is worked on.

    :ivar server: the server as it is recorded, or will be with the next record.
    :ivar progress: likewise. :ivar owed: operations to record with the next record.
    :ivar scheduler: and :ivar allocations: see `Outside`. :ivar options: of the conductor.
    :ivar patience: repeats calls.
    :ivar is_new: the server is new, and the scheduler was never asked for it.
    """

    def __init__(
        self,
        operation: ServerOperation,
        server: Server,
        outside: Outside,
        options: ConductorOptions,
        patience: Patience,
        store: ServerStore,
        clock: Clock,
    ) -> None:
        self.operation, self.server = operation, server
        self.progress: Progress = progress_of(operation.progress)
        self.owed: list[ServerOperation] = []
        self.scheduler, self.allocations = outside.scheduler, outside.allocations
        self._outside, self.options, self.patience = outside, options, patience
        self._store, self._clock = store, clock
        self.is_new = operation.epoch == 1 and self.progress.was == BUILDING
        self._began, self._has_recorded = clock.monotonic(), False

    def learn(self, **fields: Any) -> None:
        """Set fields of the progress."""
        self.progress = replace(self.progress, **fields)

    def id(self, purpose: str) -> str:
        """Return the id of a call: the same one in each repetition, also of another process."""
        operation = self.operation
        name = f"{operation.attempt} {operation.step} {operation.forward} {purpose}"
        return str(uuid.uuid5(UUID(operation.uuid), name))

    # -- agents ---------------------------------------------------------------------------------

    def agent(self, place: Place, method: str, **arguments: Any) -> Any:
        """Call an agent, with an operation id of this step. Repeat the call for some time."""
        arguments.setdefault("operation_id", self.id(f"{method} {place.host}"))
        return self.reach(
            partial(self._outside.agents.call, place.host, place.node_uuid, method, **arguments)
        )

    def end(self, place: Place, method: str, **arguments: Any) -> None:
        """Call an agent to end a claim. If another node has replaced the claim's node, the claim
        has ended."""
        with suppress(NodeNotFound):
            self.agent(place, method, **arguments)

    def report(self, place: Place | None, vm_state: str, task_state: str | None) -> None:
        """Report the server's state to an agent. It feeds statistics only, so the operation goes on
        if the host does not answer: its next report corrects them."""
        if place is None:
            return
        update = {"uuid": self.server.uuid, "vm_state": vm_state, "task_state": task_state}
        with suppress(RtAgentError):
            self.agent(place, "update_usage", instance=update)

    def reach(self, call: Callable[[], T]) -> T:
        """Make a call. Repeat it for `ConductorOptions.host_timeout` while it may succeed later.

        Before each call the operation may have been taken over, because this process stood still
        or could not reach the records. It may stand still after this check, too: so each call
        depends on what it was decided for, and has no effect if that is not so any more. So the
        record of the call is check enough.

        :raises OperationTaken:
        """

        def check() -> None:
            if self._has_recorded:
                self._has_recorded = False
            else:
                self.check()

        return self.patience.repeat(call, self.options.host_timeout, check)

    def own(self) -> None:
        """Check that this conductor still owns the operation. Repeat that as a call.

        :raises OperationTaken:
        """
        self.patience.repeat(self.check, self.options.host_timeout)

    def save(self, server: Server | None = None, *, deleted: bool = False, **fields: Any) -> None:
        """Record the progress, what is owed, and fields of the operation. Repeat that as a call.

        :param server: it changed. :param deleted: it is deleted.
        :raises OperationTaken: the database has another owner.
        """
        document, now, owed = self.progress.document(), self._clock.now(), tuple(self.owed)
        self.operation = replace(self.operation, progress=document, updated_at=now, **fields)

        def save() -> bool:
            return self._store.save(self.operation, server, deleted=deleted, owed=owed)

        if not self.patience.repeat(save, self.options.host_timeout):
            raise OperationTaken(operation_uuid=self.operation.uuid)
        self.owed.clear()
        self._has_recorded = True

    def check(self) -> None:
        """Check that this conductor still owns the operation. :raises OperationTaken:"""
        self._has_recorded = False
        if not self._store.beat(self.operation):
            raise OperationTaken(operation_uuid=self.operation.uuid)

    @property
    def floor(self) -> int:
        """The generation of the server's consumer with which a late write may still be made.

        Placement counts anew for a consumer that was without allocations in between.
        """
        before = self.server.consumer_generation
        if self.operation.epoch == 1:  # no other conductor has worked on this operation
            return before
        return max(before, self.progress.consumer_generation, 1)

    # -- guests -----------------------------------------------------------------------------------

    def state(self, place: Place) -> GuestState:
        """Return whether the server's domain is absent, stopped or running on a host."""
        return self.reach(lambda: self._outside.enactor.state(place.host, self.server.uuid))

    def define(self, place: Place, *replaced: Place) -> None:
        """Define the domain of a claim. :param replaced: other claims whose domain it replaces."""
        domain = self._domain(place)
        self._order("define", place.host, domain, claims_of(replaced))

    def start(self, place: Place) -> None:
        """Start the domain of a claim."""
        self._order("start", place.host, self._domain(place))

    def stop(self, place: Place) -> None:
        """Stop the domain of a claim."""
        self._order("stop", place.host, self.server.uuid, claims_of((place,)))

    def undefine(self, *places: Place) -> None:
        """Remove the domain of a claim. :param places: the claims on one host that it may have."""
        self._order("undefine", places[0].host, self.server.uuid, claims_of(places))

    def live_migrate(self, source: Place, dest: Place) -> None:
        """Migrate the running guest from the claim at the source to that at the destination."""
        domain = self._domain(dest)
        self._order("live_migrate", source.host, dest.host, domain, claims_of((source,)))

    def _order(self, name: str, *arguments: Any) -> None:
        """Give the enactor an order. It checks the owner itself, as late as possible."""
        order = partial(getattr(self._outside.enactor, name), *arguments, check=self.check)
        self.patience.repeat(order, self.options.host_timeout)

    # -- hooks and leases -------------------------------------------------------------------------

    def hook(self, name: str, *hosts: str, lease: Place | None = None) -> None:
        """Call a hook. While it runs, a claim's lease is renewed. The next call for the claim
        notices that the lease was lost.

        :raises HookFailed:
        """
        with self.renewing(lease):
            self.own()
            try:
                getattr(self._outside.hooks, name)(self.server, *hosts)
            except Exception as error:
                raise HookFailed(hook=name, host=hosts[-1], why=str(error)) from error

    def renewing(self, lease: Place | None) -> AbstractContextManager[None]:
        """Return a context in which a claim's lease is renewed: at an interval, and at once unless
        this operation has just made the claim.

        :raises ClaimExpired: the lease was lost.
        """
        calls = () if lease is None else (partial(self._renew, lease),)
        interval, limit = self.options.lease_renew_interval, self.options.operation_timeout
        # The operation may be resumed long after the claim was made.
        if self.operation.epoch > 1 or self._clock.monotonic() - self._began >= interval:
            for call in calls:
                self.reach(call)
        return background("rtagent-lease", calls, interval, limit)

    def _renew(self, lease: Place) -> None:
        """Renew a lease. A repeated operation id would only read the claim."""
        self._outside.agents.call(
            lease.host,
            lease.node_uuid,
            "renew_claim",
            claim_uuid=lease.claim["uuid"],
            operation_id=str(uuid.uuid4()),
        )

    # -- documents --------------------------------------------------------------------------------

    def instance(self, spec: RequestSpec, vm_state: str, task_state: str | None) -> dict[str, Any]:
        """Return the document of the instance for a claim."""
        server = self.server
        state = {"vm_state": vm_state, "task_state": task_state}
        instance = instance_of(spec, server.uuid, display_name=server.name, **state)
        document: dict[str, Any] = msgspec.to_builtins(instance)
        return {name: value for name, value in document.items() if value is not None}

    def _domain(self, place: Place) -> GuestDomain:
        """Return the domain that enacts a claim. :raises InvalidReply: it cannot be read."""
        try:
            return GuestDomain(
                uuid=self.server.uuid,
                name=self.server.name,
                claim=_claims.convert(place.claim),
                guest=place.claim["guest"],
                node_devices=tuple(place.claim["node_devices"]),
                document=self.server.document,
            )
        except (msgspec.ValidationError, KeyError, TypeError) as error:
            where, why = f"the agent of {place.host}", f"{type(error).__name__}: {error}"
            raise InvalidReply(where=where, method="a claim", why=why) from error
