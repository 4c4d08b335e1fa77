"""The ports of a conductor: scheduler, agents, guests, Placement, records, the caller's hooks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

from rtagent.model.guest import GuestDomain, GuestState
from rtagent.model.server import RequestSpec, Selections, Server, ServerOperation


class SchedulerPort(Protocol):
    """Selects hosts. Errors are those of the scheduler, raised here; `Unavailable`: no answer."""

    def select_destinations(
        self, spec: RequestSpec, instance_uuids: Sequence[str], *, alternates: bool
    ) -> Sequence[Selections]:
        """Select a host for each instance.

        :raises NoValidHost:
        """

    def is_forced_down(self, host: str) -> bool:
        """Return whether an operator has forced a service host down."""

    def forget_claim(self, operation_id: str) -> None:
        """Report that no claim will be made with a selection's operation id."""


class Agents(Protocol):
    """The agents of all hosts. Thread-safe."""

    def call(self, host: str, node_uuid: str | None, method: str, **arguments: Any) -> Any:
        """Call a method of `rtagent.rpc.client.AgentAPI` once, and return its reply.

        :raises AgentUnreachable: there is no answer: the call may have had its effect.
        :raises RtAgentError: the agent's error.
        """


class Allocations(Protocol):
    """The allocations that the conductor itself writes to Placement.

    Every method raises `PlacementUnavailable` if there is no answer.
    """

    def consumer(self, uuid: str) -> Mapping[str, Any]:
        """Return a consumer as Placement's ``GET /allocations/{uuid}`` does."""

    def write(self, consumers: Mapping[str, Mapping[str, Any]]) -> None:
        """Write consumers as Placement's ``POST /allocations`` does: all or none.

        :raises PlacementConflict: too little is left, or a consumer has another generation.
        """


class Hooks(Protocol):
    """What the caller does for a server besides its guest: images, disks, networks.

    Every method is idempotent, may take long, and raises any exception if it fails. A hook can be
    late: if this process is suspended just before its call, another conductor may have finished the
    operation. So a hook that removes anything should depend on what it removes, for example on an
    id of its own that `prepare` recorded.
    """

    def prepare(self, server: Server, host: str) -> None:
        """Make disks and networks ready on a host, before the guest starts there."""

    def copy(self, server: Server, source: str, dest: str) -> None:
        """Copy the disks of a guest that moves. The guest is stopped."""

    def save(self, server: Server, host: str) -> None:
        """Save the disks of a server that is shelved, elsewhere than on its host."""

    def cleanup(self, server: Server, host: str) -> None:
        """Remove what a server has on a host that it is not on any more."""


class NoHooks:
    """Hooks that do nothing: for guests without disks of their own, or on shared storage."""

    def prepare(self, server: Server, host: str) -> None:
        """Do nothing."""

    def copy(self, server: Server, source: str, dest: str) -> None:
        """Do nothing."""

    def save(self, server: Server, host: str) -> None:
        """Do nothing."""

    def cleanup(self, server: Server, host: str) -> None:
        """Do nothing."""


#: Whether an operation was recorded; else: another one runs on the server or has changed it, a
#: server of this uuid exists, or there is none.
Begun = Literal["begun", "busy", "exists", "absent"]


class ServerStore(Protocol):
    """Durable records of servers and operations. Every method is one transaction.

    Every method raises `StoreUnavailable` if it is unknown whether the database executed it. It may
    be repeated then.
    """

    def begin(self, operation: ServerOperation, server: Server, seen: Server | None) -> Begun:
        """Record a new operation, and that it runs on its server.

        :param seen: the server as it was read; None: it is new.
        """

    def save(
        self,
        operation: ServerOperation,
        server: Server | None = None,
        *,
        deleted: bool = False,
        owed: Collection[ServerOperation] = (),
    ) -> bool:
        """Record how far an operation is, and its server if it changed.

        :param deleted: the server and its finished operations are removed instead.
        :param owed: new operations without an owner, which are recorded once.
            A finished one whose server is gone is removed.
        :return: False: the operation has another owner, and nothing was recorded.
        """

    def beat(self, operation: ServerOperation) -> bool:
        """Increase the beat of an operation. Return False if its owner is another one, or none."""

    def take(self, operation: ServerOperation, owner: str) -> ServerOperation | None:
        """Become the owner of an operation, unless it changed since it was read. Return it."""

    def server(self, uuid: str) -> Server | None:
        """Return a server, or None."""

    def servers(self) -> Sequence[Server]:
        """Return all servers, oldest first."""

    def operation(self, uuid: str) -> ServerOperation | None:
        """Return an operation, or None."""

    def operations(
        self, *, server_uuid: str | None = None, running: bool = False
    ) -> Sequence[ServerOperation]:
        """Return operations, oldest first: of a server, or those that are not finished."""


class Enactor(Protocol):
    """Runs guests on hosts. Thread-safe.

    Every method is idempotent: a repetition finds the work done, or finishes it, whether or not the
    first call had an effect and was answered. Every wait is bounded.

    An order is for a claim, and the domain's metadata name its own. A domain of another claim, or
    of none, is not touched: `rtagent.errors.ClaimMismatch`. An order for an absent domain has
    nothing to do.

    Every method that has an effect calls ``check`` just before each effect, with the session open
    on which it is made, so that a process that stands still in between loses the session. The error
    of ``check`` prevents the effect.

    Every method raises `HypervisorUnavailable` if the host does not answer: the call may have had
    an effect, and the conductor repeats it. It raises `rtagent.errors.EnactmentFailed` if the
    host refused: a repetition would be refused, too, and the conductor undoes the operation.
    """

    def state(self, host: str, server_uuid: str) -> GuestState:
        """Return whether the server's domain is absent, stopped or running on a host."""

    def define(
        self, host: str, domain: GuestDomain, replaced: Collection[str], check: Callable[[], object]
    ) -> None:
        """Define the domain, and replace a definition that differs. It is not started.

        A domain that runs keeps running as it is; its definition is replaced.

        :param replaced: other claims whose domain is replaced.
        """

    def start(self, host: str, domain: GuestDomain, check: Callable[[], object]) -> None:
        """Start the domain that `define` defined, with its mediated devices."""

    def stop(
        self, host: str, server_uuid: str, claims: Collection[str], check: Callable[[], object]
    ) -> None:
        """Stop the domain. The definition stays. :param claims: it is of one of these."""

    def undefine(
        self, host: str, server_uuid: str, claims: Collection[str], check: Callable[[], object]
    ) -> None:
        """Stop the domain, and remove it and its mediated devices from the host.

        :param claims: it is of one of these.
        """

    def live_migrate(
        self,
        source: str,
        dest: str,
        domain: GuestDomain,
        claims: Collection[str],
        check: Callable[[], object],
    ) -> None:
        """Migrate the running domain, so that it enacts the claim of the destination there.

        Afterwards it runs at the destination and is absent at the source. If it raises
        `EnactmentFailed`, it runs at the source, and is absent at the destination with its mediated
        devices.

        :param claims: at the source it is of one of these.
        """
