"""Publisher: publish the node to Placement."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rtagent.bus import StatePublished
from rtagent.embedded import EmbeddedNode
from rtagent.errors import NodeNotReady, PlacementUnavailable, StoreUnavailable, TrackerBusy
from rtagent.lifecycle.attach import quarantine_used_before
from rtagent.model.base import Value
from rtagent.model.change import Call
from rtagent.placement import tree
from rtagent.placement.adoption import Adoption, AdoptionFile
from rtagent.placement.client import HttpPlacement
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.provider import Ownership, Tree
from rtagent.placement.takeover import Takeover
from rtagent.service.admission import Admission
from rtagent.service.context import (
    DuplicateChanged,
    Granting,
    HypervisorLost,
    NodeContext,
    ServiceChanged,
)
from rtagent.service.heartbeat import Heartbeat
from rtagent.telemetry.metrics import Metrics

#: Seconds for which `Publisher.sync` waits until Placement is up to date.
SYNC_TIMEOUT = 20.0


class Publisher:
    """The mirror to Placement.

    :ivar mirror: its turns are a thread's.
    """

    def __init__(
        self,
        context: NodeContext,
        api: HttpPlacement,
        node: EmbeddedNode,
        admission: Admission,
        heartbeat: Heartbeat,
        wake: Callable[[], None],
        give_way: Callable[[], None],
    ) -> None:
        """:param wake: wakes the thread. :param give_way: see `PlacementMirror`."""
        self._context, self._node = context, node
        self._admission, self._heartbeat = admission, heartbeat
        self._unclaimed: Mapping[str, Mapping[str, int]] = {}
        state_path = context.settings.current.default.state_path
        self._ownership = Ownership(state_path)
        self._takeover = Takeover(
            api,
            self._ownership,
            AdoptionFile(state_path),
            lambda: self._node.state,
            self.wanted,
            self._adopt,
            self._quarantine,
        )
        self.mirror = PlacementMirror(
            api,
            self.wanted,
            self._ownership,
            context.clock,
            context.reporter,
            wake=wake,
            give_way=give_way,
            prepare=self._takeover.prepare,
            refresh=self._refresh,
        )
        bus = context.bus
        bus.subscribe(StatePublished, lambda e: self.mirror.listener(e.state, e.changes))
        for event in (Granting, HypervisorLost, ServiceChanged, DuplicateChanged):
            bus.subscribe(event, self._wake)

    def note_unclaimed(self, unclaimed: Mapping[str, Mapping[str, int]]) -> None:
        """Reserve less from now on, because consumers without a claim have allocations of the root.

        :param unclaimed: see `allocation_audit.unclaimed`.
        """
        if unclaimed != self._unclaimed:
            self._unclaimed = unclaimed
            self.mirror.wake()

    def sync(self) -> int:
        """Read everything again and publish. Return the revision that Placement then shows.

        :raises PlacementError: Placement is not up to date in time.
        :raises NodeNotReady: there was no good audit yet.
        """
        self.mirror.sync_now(SYNC_TIMEOUT, anew=True)
        if self.mirror.revision < 0:
            raise NodeNotReady("what to publish is known after the first audit")
        return self.mirror.revision

    @property
    def first_round_ended(self) -> bool:
        """Whether the tree has been published once, or could not be, after Placement has got the
        layout of the tree.
        """
        mirror = self.mirror
        return self._takeover.done and (mirror.revision >= 0 or mirror.error is not None)

    def owns(self, uuid: str) -> bool:
        """Whether the agent has created or adopted a provider that Placement still has.

        :raises PlacementError: the records cannot be read.
        """
        return self._ownership.knows(uuid)

    @property
    def claims_complete(self) -> bool:
        """Whether the claims are known to be all of this host, so that allocations may follow them.

        They may not be if the store went back in time, or if another agent serves the host: a copy
        of this one, for example.
        """
        tracker = self._node.tracker
        return not (tracker.restored or tracker.fault or self._admission.duplicate)

    def measure(self, metrics: Metrics) -> None:
        """Register the gauges of the mirror."""
        metrics.gauge(
            "placement_lag_seconds",
            "How long Placement has not shown a change, or could not be read again when that was"
            " due",
            lambda: self.mirror.seconds_behind,
        )
        metrics.gauge(
            "placement_revision",
            "The node's revision that Placement shows; -1: none yet",
            lambda: self.mirror.revision,
        )

    def wanted(self) -> Tree | None:
        """The content that Placement should show; None before the first good audit."""
        up = self._admission.hypervisor_up
        # The scheduler must not choose a host that refuses claims until an operator has acted.
        refuses = self._node.tracker.restored or self._admission.duplicate
        draining = self._node.state.drain is not None
        disabled = self._heartbeat.disabled or draining or refuses is not None
        if up is None:
            return None
        return tree.build(self._node.state, disabled, up, self._unclaimed)

    def _adopt(self, adoption: Adoption) -> None:
        with _in_force():
            self._node.adopt(adoption)

    def _quarantine(self, addresses: Sequence[str]) -> None:
        call = Call(
            method="quarantine_pci_device",
            operation_id=str(uuid.uuid4()),
            digest="",
            actor="takeover",
        )
        with _in_force():
            self._node.tracker.execute(quarantine_used_before, call, addresses)

    def _wake(self, _event: Value) -> None:
        """Publish soon, because something may have changed."""
        self.mirror.wake()

    def _refresh(self) -> float:
        return self._context.settings.current.compute.resource_provider_association_refresh


@contextmanager
def _in_force() -> Iterator[None]:
    """:raises PlacementUnavailable: what was read in Placement cannot be recorded now."""
    try:
        yield
    except (StoreUnavailable, TrackerBusy) as error:
        raise PlacementUnavailable(
            f"adopted providers are not in force yet: {error.message}"
        ) from error
