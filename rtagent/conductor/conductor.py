"""Conductor: builds, moves and deletes servers."""

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from rtagent.conductor.checks import check_down, check_reason, checked_identity
from rtagent.conductor.engine import Engine, Listener
from rtagent.conductor.errors import (
    OperationNotFound,
    OperationTaken,
    ServerConflict,
    ServerNotFound,
)
from rtagent.conductor.operations import STATES, TABLES
from rtagent.conductor.operations.delete import FORCED_DELETE, forced_progress, instead_of
from rtagent.conductor.patience import Patience, background
from rtagent.conductor.ports import Begun, ServerStore
from rtagent.conductor.run import ConductorOptions, Outside, Progress, Run, progress_of
from rtagent.errors import RtAgentError
from rtagent.model.request import Flavor
from rtagent.model.server import (
    BUILDING,
    DELETED,
    Destination,
    InstanceGroup,
    Purpose,
    RequestSpec,
    Server,
    ServerOperation,
)
from rtagent.ports import Clock

Hosts = tuple[str, ...]


class Conductor:
    """Makes operations on servers. Thread-safe, as far as its ports are.

    Each method records the operation, works on it, and returns the server, or raises
    `OperationFailed` or `OperationInterrupted`. `resume` continues the unfinished operations of
    other or earlier conductors.

    :ivar uuid: of this conductor, as the owner of operations.
    """

    def __init__(
        self,
        store: ServerStore,
        outside: Outside,
        options: ConductorOptions,
        clock: Clock,
        pause: Callable[[float], None],
        listener: Listener = lambda operation: None,
    ) -> None:
        """:param pause: waits for some seconds.
        :param listener: is called before each step, from the thread that works on the operation.
        """
        self.uuid = str(uuid.uuid4())
        self._store, self._outside, self._options = store, outside, options
        self._clock, self._pause, self._listener = clock, pause, listener

    # -- reads ------------------------------------------------------------------------------------

    def servers(self) -> Sequence[Server]:
        """Return all servers, oldest first."""
        return self._store.servers()

    def server(self, server_uuid: str) -> Server:
        """Return a server. :raises ServerNotFound:"""
        server = self._store.server(server_uuid)
        if server is None:
            raise ServerNotFound(server_uuid=server_uuid)
        return server

    def unfinished(self, server_uuid: str | None = None) -> Sequence[ServerOperation]:
        """Return the operations that are not finished, oldest first."""
        return self._store.operations(server_uuid=server_uuid, running=True)

    # -- operations -------------------------------------------------------------------------------

    def build(
        self,
        spec: RequestSpec,
        *,
        server_uuid: str | None = None,
        name: str = "",
        document: str | None = None,
    ) -> Server | None:
        """Build a server.

        :param document: a domain document with its disks and networks; None: a minimal one is made.
        :raises InvalidRequest: the uuid or the name is invalid.
        """
        now, server_uuid = self._clock.now(), server_uuid or str(uuid.uuid4())
        identity = checked_identity(server_uuid, name or f"server-{server_uuid}")
        server = Server(
            uuid=identity.uuid,
            name=identity.name,
            spec=spec,
            vm_state=BUILDING,
            document=document,
            created_at=now,
            updated_at=now,
        )
        return self._begin("build", server, "scheduling", self._spec(server, "build"), new=True)

    def delete(self, server_uuid: str) -> None:
        """Delete a server."""
        self._begin("delete", self.server(server_uuid), "deleting")

    def force_delete(self, server_uuid: str, reason: str) -> None:
        """Delete a server whose hosts may be gone for good, whatever operation runs on it.

        What a host has of the server, and cannot be removed now, is owed: see `owed`.

        :param reason: recorded with what is owed.
        :raises ServerConflict: a conductor works on an operation of the server.
        """
        check_reason("force_delete", reason)
        server = self.server(server_uuid)
        running = server.operation_uuid and self._store.operation(server.operation_uuid)
        if not running:
            forced = forced_progress(server, reason)
            self._begin(FORCED_DELETE.kind, server, "deleting", forced=forced)
            return
        operation = self._take(running)
        server = self.server(server_uuid)
        if operation.kind != FORCED_DELETE.kind:
            operation = instead_of(operation, server, reason)
            server = replace(server, task_state="deleting")
            self._save(operation, server)
        self._work(operation, server)

    def resize(self, server_uuid: str, flavor: Flavor) -> Server | None:
        """Resize a server. Afterwards it is to be confirmed or reverted."""
        server = self.server(server_uuid)
        ignored = () if self._options.allow_resize_to_same_host else _hosts(server)
        spec = self._spec(server, "resize", ignored=ignored)
        return self._begin("resize", server, "resize_prep", replace(spec, flavor=flavor))

    def cold_migrate(self, server_uuid: str, host: str | None = None) -> Server | None:
        """Move a server to another host while it is stopped. Afterwards it is to be confirmed or
        reverted.

        :param host: the only host to try; None: any that fits. It is the same for all methods.
        """
        server = self.server(server_uuid)
        spec = self._spec(server, "migration", host, _hosts(server))
        return self._begin("resize", server, "resize_prep", spec)

    def confirm(self, server_uuid: str) -> Server | None:
        """End a resize or cold migration at its destination."""
        return self._begin("confirm", self.server(server_uuid), "resize_confirming")

    def revert(self, server_uuid: str) -> Server | None:
        """Return a resized or migrated server to its former flavor and host."""
        return self._begin("revert", self.server(server_uuid), "resize_reverting")

    def live_migrate(self, server_uuid: str, host: str | None = None) -> Server | None:
        """Move a running server to another host."""
        server = self.server(server_uuid)
        spec = self._spec(server, "live-migration", host, _hosts(server))
        return self._begin("live-migration", server, "migrating", spec)

    def evacuate(
        self, server_uuid: str, host: str | None = None, *, host_is_down: bool = False
    ) -> Server | None:
        """Start a server on another host, because its own has failed.

        :param host_is_down: the caller knows that the guest does not run any more, although the
            agent of its host answers.
        :raises ServerConflict: the agent of its host answers, or the guest runs there.
        """
        server = self.server(server_uuid)
        spec = self._spec(server, "evacuation", host, _hosts(server))
        self._check_state("evacuation", server)
        if not host_is_down:
            check_down(server, self._outside)
        return self._begin("evacuation", server, "rebuilding", spec)

    def shelve(self, server_uuid: str) -> Server | None:
        """Take a server off its host."""
        return self._begin("shelve", self.server(server_uuid), "shelving_offloading")

    def unshelve(
        self, server_uuid: str, host: str | None = None, *, availability_zone: str | None = None
    ) -> Server | None:
        """Start a shelved server, on any host. :param availability_zone: its new one, or None."""
        server = self.server(server_uuid)
        zone = availability_zone or server.spec.availability_zone
        spec = replace(self._spec(server, "unshelve", host), availability_zone=zone)
        return self._begin("unshelve", server, "unshelving", spec)

    def start(self, server_uuid: str) -> Server | None:
        """Start a stopped server."""
        return self._begin("start", self.server(server_uuid), "powering-on")

    def stop(self, server_uuid: str) -> Server | None:
        """Stop a server. It keeps its claim."""
        return self._begin("stop", self.server(server_uuid), "powering-off")

    def resume(self, operation_uuid: str | None = None) -> list[ServerOperation]:
        """Take over the operations that no conductor works on. Return them, for `work`.

        An operation is taken over if its beat does not change for `ConductorOptions.takeover_time`.

        :param operation_uuid: this one only.
        :raises OperationNotFound: it does not exist, or is finished.
        """
        operations = [op for op in self.unfinished() if operation_uuid in (None, op.uuid)]
        if operation_uuid is not None and not operations:
            raise OperationNotFound(operation_uuid=operation_uuid)
        if any(operation.owner is not None for operation in operations):
            self._pause(self._options.takeover_time)
        taken = (self._store.take(operation, self.uuid) for operation in operations)
        return [operation for operation in taken if operation is not None]

    def owed(self) -> Sequence[ServerOperation]:
        """Return what is owed to hosts that did not answer, oldest first. `resume` completes it."""
        return [each for each in self.unfinished() if TABLES[each.kind].alone]

    def drop_owed(self, operation_uuid: str, reason: str) -> ServerOperation:
        """Give up what is owed to a host that will never be back. Return it.

        :param reason: recorded with it.
        :raises OperationNotFound: nothing of this uuid is owed.
        :raises ServerConflict: a conductor works on it.
        """
        check_reason("drop_owed", reason)
        owed = [operation for operation in self.owed() if operation.uuid == operation_uuid]
        if not owed:
            raise OperationNotFound(operation_uuid=operation_uuid)
        operation = self._take(owed[0])
        error = {"message": f"it was dropped: {reason}"}
        self._save(replace(operation, state="failed", owner=None, error=error))
        return operation

    def work(self, operation: ServerOperation) -> Server | None:
        """Continue an operation that `resume` has taken over. Return as its method would."""
        server = self._store.server(operation.server_uuid)
        return self._work(operation, server or _deleted(operation))

    # -- the course of an operation ---------------------------------------------------------------

    def _begin(
        self,
        kind: str,
        seen: Server,
        task_state: str,
        spec: RequestSpec | None = None,
        *,
        new: bool = False,
        forced: Progress | None = None,
    ) -> Server | None:
        """Record a new operation, and work on it.

        :param spec: of the host to select; None: none is selected.
        :param forced: what a forced delete begins with.
        """
        self._check_state(kind, seen)
        now = self._clock.now()
        progress = forced or Progress(spec=spec or seen.spec, was=seen.vm_state, source=seen.place)
        operation = ServerOperation(
            uuid=str(uuid.uuid4()),
            server_uuid=seen.uuid,
            kind=kind,
            step=TABLES[kind].steps[0].name,
            created_at=now,
            updated_at=now,
            progress=progress.document(),
            owner=self.uuid,
        )
        server = replace(seen, task_state=task_state, operation_uuid=operation.uuid, updated_at=now)
        begun = self._patience().repeat(
            lambda: self._store.begin(operation, server, None if new else seen),
            self._options.host_timeout,
        )
        self._check_begun(begun, operation)
        return self._work(operation, server)

    def _take(self, running: ServerOperation) -> ServerOperation:
        """Take an operation over. :raises ServerConflict: a conductor works on it."""
        taken = self.resume(running.uuid)
        if taken:
            return taken[0]
        why = f"a conductor works on the {running.kind} {running.uuid}: repeat this when it stops"
        raise ServerConflict(server_uuid=running.server_uuid, kind="this change", why=why)

    def _save(self, operation: ServerOperation, server: Server | None = None) -> None:
        """Record an operation that this conductor owns, and its server."""
        operation = replace(operation, updated_at=self._clock.now())
        mine = self._patience().repeat(
            lambda: self._store.save(operation, server), self._options.host_timeout
        )
        if not mine:
            raise OperationTaken(operation_uuid=operation.uuid)

    def _spec(
        self, server: Server, purpose: Purpose, host: str | None = None, ignored: Hosts = ()
    ) -> RequestSpec:
        """Return the request for a host to move a server to.

        A host from which the server, or a deleted one of its uuid, was evacuated is ignored until
        it is cleared: clearing it would remove the guest. A host or node that the build's request
        names counts for the build alone.
        """
        sources = (progress_of(each.progress).source for each in self.unfinished(server.uuid))
        evacuated = (source.host for source in sources if source is not None)
        spec, destination = server.spec, server.spec.requested_destination
        if purpose != "build":
            destination = replace(destination or Destination(), host=host, node=None)
        return replace(
            spec,
            purpose=purpose,
            ignore_hosts=tuple(dict.fromkeys((*spec.ignore_hosts, *ignored, *evacuated))),
            requested_destination=destination,
            instance_group=self._group(server, purpose),
        )

    def _group(self, server: Server, purpose: Purpose) -> InstanceGroup | None:
        """Return the server group, with the servers that have joined it since the request."""
        if (group := server.spec.instance_group) is None:
            return None
        others = self.servers() if group.uuid else ()
        groups = ((other.uuid, other.spec.instance_group) for other in others)
        joined = (uuid for uuid, other in groups if other and other.uuid == group.uuid)
        members = tuple(dict.fromkeys((*group.members, *joined)))
        # Where they were at the build may be wrong. The scheduler knows where they are.
        moves = purpose != "build" and set(members) - {server.uuid}
        return replace(group, members=members, hosts=() if moves else group.hosts)

    def _check_state(self, kind: str, server: Server) -> None:
        allowed = STATES.get(kind)
        if server.operation_uuid is not None:
            raise self._busy(server.uuid, kind)
        if allowed is not None and server.vm_state not in allowed:
            why = f"its vm_state is {server.vm_state}, and must be {' or '.join(allowed)}"
            raise ServerConflict(server_uuid=server.uuid, kind=kind, why=why)

    def _check_begun(self, begun: Begun, operation: ServerOperation) -> None:
        if begun == "absent":
            raise ServerNotFound(server_uuid=operation.server_uuid)
        if begun == "busy":
            raise self._busy(operation.server_uuid, operation.kind)
        if begun == "exists":
            why = "a server of this uuid exists"
            raise ServerConflict(server_uuid=operation.server_uuid, kind=operation.kind, why=why)

    def _busy(self, server_uuid: str, kind: str) -> ServerConflict:
        server = self.server(server_uuid)
        running = server.operation_uuid and self._store.operation(server.operation_uuid)
        why = "another operation has just changed it: repeat the call"
        if running:
            doing = f"the {running.kind} {running.uuid} runs on it"
            why = f"{doing}. rtagent server resume continues one that was interrupted"
            if kind == "delete":
                why += "; if its host is gone for good: rtagent server delete --force"
        return ServerConflict(server_uuid=server_uuid, kind=kind, why=why)

    def _work(self, operation: ServerOperation, server: Server) -> Server | None:
        ports = (self._outside, self._options, self._patience(), self._store, self._clock)
        run = Run(operation, server, *ports)
        engine = Engine(TABLES[operation.kind], run, self._clock, self._listener)
        beat = partial(self._store.beat, operation)
        interval = self._options.takeover_time / 5
        try:
            with background("rtagent-beat", (beat,), interval):
                return engine.work()
        except KeyboardInterrupt:  # so that it can be resumed at once
            with suppress(RtAgentError):
                self._store.save(replace(run.operation, owner=None))
            raise

    def _patience(self) -> Patience:
        deadline = self._clock.monotonic() + self._options.operation_timeout
        return Patience(self._clock, self._pause, deadline)


def _hosts(server: Server) -> Hosts:
    """Return the host that a server is on."""
    return () if server.place is None else (server.place.host,)


def _deleted(operation: ServerOperation) -> Server:
    """Return a substitute for a server that was deleted while a call for it was owed."""
    progress = progress_of(operation.progress)
    return Server(
        uuid=operation.server_uuid,
        name="",
        spec=progress.spec,
        vm_state=DELETED,
        created_at=operation.created_at,
        updated_at=operation.updated_at,
    )
