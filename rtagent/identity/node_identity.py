"""The identity of a node, which a process must prove before it may write for the node."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from rtagent.errors import IdentityError
from rtagent.identity import machine
from rtagent.identity.enrollment import Claimant, HeartbeatWatch, enroll
from rtagent.identity.locks import HypervisorLock, state_directory_lock
from rtagent.identity.witness import FileWitness
from rtagent.model.base import Value
from rtagent.model.node import Node, NodeRecord
from rtagent.model.stored import Stored
from rtagent.ports import Clock, Enroll, HostIdentity, Hypervisor, Reporter, Store, Witness
from rtagent.state.restoration import MemoryWitness


class NodeIdentity(Protocol):
    """Proves the identity of this process, and enrolls it as the writer of its node."""

    def enroll(self, store: Store, hypervisor: Hypervisor, clock: Clock) -> Stored:
        """Become the node's writer, and return the node's state from the store.

        :raises IdentityError: another process is the writer; nothing was written.
        :raises TakeoverPending: another process may be the writer: try again in a few seconds.
        :raises HypervisorUnavailable: StoreUnavailable: try again later.
        """

    def witness(self, stored: Stored) -> Witness:
        """Return what this host remembers of the node outside of the store.

        :param stored: what `enroll` returned.
        """

    def release(self) -> None:
        """Release the locks that exclude a second agent. Idempotent."""


class IdentityOptions(Value, frozen=True, kw_only=True):
    """The options of ``[DEFAULT]`` that identify a node.

    :ivar host_ip: ``my_ip``. :ivar service_down_time: seconds.
    :ivar take_over: the operator has confirmed that another writer is gone (``--take-over``).
    """

    host: str
    host_ip: str
    state_path: str
    lock_path: str
    service_down_time: int
    take_over: bool = False


class HostNodeIdentity:
    """The identity that the files of this host define, protected by two file locks.

    The state directory contains the node's uuid (``compute_id``) and a lock; a second lock excludes
    an agent with another state directory from the same hypervisor. The three steps may be called
    one by one, in this order; `enroll` performs the steps that were not called.
    """

    def __init__(self, options: IdentityOptions, reporter: Reporter) -> None:
        self._options, self._reporter = options, reporter.named(__name__)
        self._witness: FileWitness | None = None
        self._state_lock = state_directory_lock(options.state_path)
        self._hypervisor_lock = HypervisorLock(options.lock_path, reporter)
        self._compute_id = machine.ComputeId(options.state_path)
        self._watch = HeartbeatWatch()
        self._found: HostIdentity | None = None

    def lock_state_directory(self) -> None:
        """Create the state directory if it does not exist, and lock it.

        :raises IdentityError: another agent has locked it, it cannot be created or used, or its
            compute_id is invalid.
        """
        directory = Path(self._options.state_path)
        try:
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as exc:
            raise IdentityError(f"{directory} cannot be made: {exc.strerror}") from exc
        self._state_lock.take()
        self._compute_id.read()  # read now, so that an invalid file is reported before any wait

    def lock_hypervisor(self, found: HostIdentity) -> None:
        """Lock the hypervisor. Call it again after each reconnection.

        :raises IdentityError: another agent has locked it, or it is a different machine than
            before.
        """
        self._hypervisor_lock.take(found)
        self._found = found

    def enroll(self, store: Store, hypervisor: Hypervisor, clock: Clock) -> Stored:
        """Become the node's writer.

        The file of a new node is written inside the transaction, after the rule has accepted. A
        file without a record is still a new node, and there is never a record without its file.

        :raises IdentityError: TakeoverPending: HypervisorUnavailable: StoreUnavailable:
        """
        if not self._state_lock.held:
            self.lock_state_directory()
        found = self._found or hypervisor.identity()
        self.lock_hypervisor(found)
        claimant = self._claimant(found.hostname)
        rule = self._keeping_file(enroll(claimant, self._watch, clock.monotonic(), clock.now()))
        return store.enroll(claimant.node.uuid, claimant.node.hypervisor_hostname, rule)

    def witness(self, stored: Stored) -> Witness:
        self._close_witness()
        self._witness = FileWitness(self._options.state_path, stored, self._reporter)
        return self._witness

    def release(self) -> None:
        self._found = None
        self._close_witness()
        self._hypervisor_lock.drop()
        self._state_lock.drop()

    def _close_witness(self) -> None:
        if self._witness is not None:
            self._witness.close()
            self._witness = None

    def _claimant(self, hypervisor_hostname: str) -> Claimant:
        options, recorded = self._options, self._compute_id.read()
        return Claimant(
            node=Node(
                uuid=recorded or str(uuid.uuid4()),
                host=options.host,
                hypervisor_hostname=hypervisor_hostname,
                host_ip=options.host_ip,
            ),
            writer=machine.writer(options.state_path),
            compute_id=str(self._compute_id.path),
            new=recorded is None,
            service_down_time=options.service_down_time,
            take_over=options.take_over,
        )

    def _keeping_file(self, rule: Enroll) -> Enroll:
        def decide(records: Sequence[NodeRecord]) -> NodeRecord:
            record = rule(records)
            self._compute_id.write(record.node.uuid)
            return record

        return decide


class GivenNodeIdentity:
    """The identity that an embedding program has itself proved.

    The program stores the node's uuid, and excludes a second writer on this host by its own means.
    The store still excludes writers on other hosts.
    """

    def __init__(self, claimant: Claimant, witness: Witness | None = None) -> None:
        """:param witness: remembers outside of the store what was acknowledged. By default nothing
        does, and a store that goes back in time is noticed only while the program runs.
        """
        self._claimant, self._witness = claimant, witness
        self._watch = HeartbeatWatch()

    def enroll(self, store: Store, hypervisor: Hypervisor, clock: Clock) -> Stored:
        """Become the node's writer.

        :raises IdentityError: also if the hypervisor is not that of the given node.
        :raises TakeoverPending: HypervisorUnavailable: StoreUnavailable:
        """
        node, found = self._claimant.node, hypervisor.identity()
        if found.hostname != node.hypervisor_hostname:
            raise IdentityError(
                f"node {node.uuid} is hypervisor {node.hypervisor_hostname}, but libvirt calls this"
                f" machine {found.hostname}"
            )
        rule = enroll(self._claimant, self._watch, clock.monotonic(), clock.now())
        return store.enroll(node.uuid, node.hypervisor_hostname, rule)

    def witness(self, stored: Stored) -> Witness:
        return self._witness or MemoryWitness()

    def release(self) -> None:
        """Do nothing, because nothing was locked."""
