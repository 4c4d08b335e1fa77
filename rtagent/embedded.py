"""Open the tracker of one node, for `rtagent.service` and for programs that embed it."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from rtagent.audit import PART, Auditor
from rtagent.bus import Bus
from rtagent.conf.settings import Settings
from rtagent.errors import NodeNotReady
from rtagent.identity.node_identity import HostNodeIdentity, IdentityOptions, NodeIdentity
from rtagent.model.node import Node, Ratios
from rtagent.model.node_state import NodeState, restore
from rtagent.model.observation import reboot
from rtagent.model.policy import Policy, ProviderFiles
from rtagent.model.stored import Stored
from rtagent.placement.adoption import Adoption, AdoptionFile, adoption_of
from rtagent.placement.offers import Offers, resolve, with_offers
from rtagent.ports import Clock, Hypervisor, NullReporter, Reporter, Store, Witness
from rtagent.tracker import ResourceTracker


def open_node(
    settings: Settings,
    hypervisor: Hypervisor,
    store: Store,
    clock: Clock,
    *,
    identity: NodeIdentity | None = None,
    reporter: Reporter | None = None,
    bus: Bus | None = None,
) -> EmbeddedNode:
    """Become the writer of this host's node, and load the node's state from the store.

    The first audit discovers the host; before it, claims raise `NodeNotReady`. Afterwards the
    program audits at intervals, and calls `tracker.recover` while the tracker is `stale`::

        >>> from rtagent import claims
        >>> with open_node(settings, hypervisor, store, clock) as node:
        ...     summary = node.auditor.run("start")
        ...     node.apply(settings)  # also after each change of the settings
        ...     claim = node.tracker.create(claims.instance_claim, call, request)
        >>> assert summary.good and claim.state == "building"

    :param settings: what `rtagent.conf.load.read` returns for a parsed configuration.
    :param hypervisor: and store: the caller owns both, and closes them after the node.
    :param identity: the caller owns it. The default uses files in ``[DEFAULT] state_path`` and
        ``lock_path``; a program that has its own means passes a `GivenNodeIdentity`.
    :param reporter: receives metrics, health and log lines. By default they are dropped.
    :param bus: receives what happens, see `rtagent.bus`. `tracker.listen` needs none.
    :raises IdentityError: another process is the writer of the node; nothing was written.
    :raises TakeoverPending: try again with the same `identity`, which watches a heartbeat.
    :raises HypervisorUnavailable: StoreUnavailable: nothing was opened; try again later.
    """
    reporter = reporter or NullReporter()
    with ExitStack() as stack:
        if identity is None:
            identity = host_identity(settings, reporter)
            stack.callback(identity.release)
        node = _restored(settings, identity, hypervisor, store, clock, reporter, bus)
        # What the store has of the host and its guests may have changed since it was written.
        node.tracker.creation.note_unobserved(PART, NodeNotReady())
        node.tracker.recover()  # if the store went back in time
        node.closing.push(stack.pop_all())
    return node


def _restored(
    settings: Settings,
    identity: NodeIdentity,
    hypervisor: Hypervisor,
    store: Store,
    clock: Clock,
    reporter: Reporter,
    bus: Bus | None,
) -> EmbeddedNode:
    """Enrol the node and load its state."""
    stored = identity.enroll(store, hypervisor, clock)
    adoption = AdoptionFile(settings.default.state_path).read(stored.node.uuid)
    node = EmbeddedNode(
        stored,
        adoption.applied_to(settings.policy(stored.ratios)),
        hypervisor,
        store,
        clock,
        reporter,
        identity.witness(stored),
        settings.provider_files,
        settings.database.operation_timeout,
        bus,
    )
    timeout = settings.libvirt.guests_start_timeout
    node.auditor.await_guests(reboot(stored.rebooted_at, clock.now(), clock.monotonic(), timeout))
    return node


def host_identity(
    settings: Settings, reporter: Reporter, *, take_over: bool = False
) -> HostNodeIdentity:
    """Return the identity that the files of this host define; nothing is locked yet.

    :param take_over: the operator has confirmed that another writer of the node is gone.
    """
    default = settings.default
    options = IdentityOptions(
        host=default.host,
        host_ip=default.my_ip,
        state_path=default.state_path,
        lock_path=default.lock_path,
        service_down_time=default.service_down_time,
        take_over=take_over,
    )
    return HostNodeIdentity(options, reporter)


class SystemClock:
    """A `Clock` that reads the time of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)


class EmbeddedNode:
    """A node whose writer is this process.

    :ivar tracker: claims, moves and devices of the node.
    :ivar auditor: runs the audits of the host.
    :ivar closing: what `close` releases; the program may add to it.
    """

    def __init__(
        self,
        stored: Stored,
        policy: Policy,
        hypervisor: Hypervisor,
        store: Store,
        clock: Clock,
        reporter: Reporter | None = None,
        witness: Witness | None = None,
        files: ProviderFiles | None = None,
        settlement: float = 5.0,
        bus: Bus | None = None,
    ) -> None:
        """Restore the state of an enrolled node. Nothing is written to the store.

        :param stored: what `Store.enroll` returned.
        :param policy: with the recorded ratios in place of its own until `apply`.
        :param witness: :param settlement: :param bus: see `ResourceTracker`.
        :param files: in force until `apply`.
        """
        self.closing = ExitStack()
        self._files = files or ProviderFiles()
        # The policy in force, the settings that it was made of and, with provider files, the state.
        self._made: tuple[Settings, NodeState | None, Policy] | None = None
        # Held while the policy is set: settings and adoption must not overwrite each other.
        self._policy_lock = threading.Lock()
        # Whether the node's row may still have values from an earlier configuration.
        self._row_is_old = True
        # Different ratios are a change, which `apply` writes.
        recorded = _with_ratios(policy, stored.ratios)
        state = with_offers(restore(stored, recorded), self._files)
        self.tracker = ResourceTracker(
            store, clock, state, reporter, witness=witness, settlement=settlement, bus=bus
        )
        self.auditor = Auditor(self.tracker, hypervisor, clock, reporter)

    @property
    def node(self) -> Node:
        """The node's uuid, service host and hypervisor name."""
        return self.state.node

    @property
    def state(self) -> NodeState:
        """The last published state. Immutable; takes no lock."""
        return self.tracker.snapshot()

    def apply(self, settings: Settings) -> None:
        """Apply the policy of these settings. Existing allocations stay.

        The first call after the first audit also writes the node's row, whose reserved quantities
        may come from an earlier configuration. The call may be repeated at any time, because an
        unchanged policy is not written again.

        :raises StoreUnavailable: TrackerBusy: the policy is not in force; try again later.
        """
        with self._policy_lock:
            self._files = settings.provider_files
            # The files may describe devices, which come and go.
            state = self.state if self._files.entries else None
            if self._made is None or self._made[0] is not settings or self._made[1] is not state:
                self._made = settings, state, self.policy_from(settings)
            # Without the host's capacity the row cannot be computed.
            anew = self._row_is_old and self.state.topology is not None
            self.tracker.set_policy(self._made[2], anew=anew)
            self._row_is_old = self._row_is_old and not anew

    def adopt(self, adoption: Adoption) -> None:
        """Put an adoption in force.

        :raises StoreUnavailable: TrackerBusy: it is not in force; try again later.
        """
        with self._policy_lock:
            state = self.state
            adopted = replace(state, policy=adoption.applied_to(state.policy))
            self.tracker.set_policy(with_offers(adopted, self._files).policy)
            self._made = None  # that policy lacks the adoption

    def policy_from(self, settings: Settings) -> Policy:
        """Return the policy that these settings make on this node.

        An allocation ratio that the settings leave unset stays unchanged, and so do adopted
        providers.
        """
        return self.offers_from(settings).added_to(self._own_policy(settings))

    def offers_from(self, settings: Settings) -> Offers:
        """Return what the provider files of these settings add to this node, as of its state."""
        if not settings.provider_files.entries:
            return Offers()
        state = replace(self.state, policy=self._own_policy(settings))
        return resolve(settings.provider_files, state)

    def _own_policy(self, settings: Settings) -> Policy:
        """The policy without what provider files add."""
        now = self.state.policy
        in_force = Ratios(
            cpu=now.cpu_allocation_ratio,
            ram=now.ram_allocation_ratio,
            disk=now.disk_allocation_ratio,
        )
        return adoption_of(self.state).applied_to(settings.policy(in_force))

    def close(self) -> None:
        """Release the locks of the node's identity, unless the caller owns the identity.
        Idempotent.

        Another process may now become the writer. Once it has, changes by this process are refused
        with `WriterFenced`.
        """
        self.closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _with_ratios(policy: Policy, recorded: Ratios) -> Policy:
    """The policy with the recorded ratios, where there are any."""
    return replace(
        policy,
        cpu_allocation_ratio=recorded.cpu or policy.cpu_allocation_ratio,
        ram_allocation_ratio=recorded.ram or policy.ram_allocation_ratio,
        disk_allocation_ratio=recorded.disk or policy.disk_allocation_ratio,
    )
