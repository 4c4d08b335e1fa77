"""LiveDomains: a `Hypervisor` that observes nothing but libvirt's domains."""

from __future__ import annotations

from collections.abc import Callable, Collection, Set
from typing import Any

from msgspec.structs import replace

from rtagent.audit import PERIODIC, Auditor
from rtagent.embedded import EmbeddedNode
from rtagent.errors import HypervisorUnavailable, NodeNotReady, StoreUnavailable, TrackerBusy
from rtagent.model.domain_usage import HostResource
from rtagent.model.node_state import NodeState
from rtagent.model.observation import Domain, Observation, Problem
from rtagent.pci.assigned_resources import mdev_names
from rtagent.ports import Hypervisor, WrappedHypervisor
from rtagent.service.context import NodeContext
from rtagent.service.loop import Backoff, Rest, every

#: Nova's drivers on libvirt begin with this word.
_LIBVIRT = "libvirt."
#: The URI of each type of guests; all others have that of QEMU.
_URIS = {"lxc": "lxc:///", "parallels": "parallels:///system"}
_QEMU = "qemu:///system"


def uri_of(nova: Any) -> str | None:
    """Return the URI of the driver's libvirt; None: it is another driver.

    :param nova: Nova's configuration.
    """
    if not str(nova.compute_driver).startswith(_LIBVIRT):
        return None
    return str(nova.libvirt.connection_uri or _URIS.get(nova.libvirt.virt_type, _QEMU))


#: Returns those of some instances that Nova has on the node and is not at work on. May raise
#: whatever Nova's objects raise.
IdleHere = Callable[[Collection[str]], Collection[str]]


class LiveDomains(WrappedHypervisor):
    """What the host has besides is observed by Nova's driver. Mediated devices that the driver does
    not assign (Cyborg's) are left out, and so are models of encryption that claims do not have.

    :param idle: asked about the owners whose domain is missing.
    """

    def __init__(
        self, hypervisor: Hypervisor, snapshot: Callable[[], NodeState], idle: IdleHere
    ) -> None:
        super().__init__(hypervisor)
        self._snapshot, self._idle = snapshot, idle

    def observe(self) -> Observation:
        """Return the domains. Of a guest that Nova builds, moves, changes or ends at this moment,
        or that Nova does not have here any more, absence says nothing: its domain counts as one
        that was gone before it was read.
        """
        seen, state = self._hypervisor.observe(), self._snapshot()
        mdevs = mdev_names(state).keys()
        domains = {uuid: _comparable(domain, mdevs) for uuid, domain in seen.domains.items()}
        missing = sorted(set(state.owners) - domains.keys())
        absent, problems = set[str](), tuple[Problem, ...]()
        if missing and seen.complete:  # otherwise nothing is concluded from absence
            absent, problems = self._absent(missing)
        return Observation(
            domains={**domains, **{uuid: _unseen(uuid) for uuid in missing if uuid not in absent}},
            complete=seen.complete,
            has_devices=False,
            mdevs=seen.mdevs,
            problems=(*seen.problems, *problems),
        )

    def _absent(self, missing: Collection[str]) -> tuple[set[str], tuple[Problem, ...]]:
        """Return which of these should have a domain, and have none; and why that is unknown."""
        try:
            idle = self._idle(missing)
        except Exception as error:  # of Nova's database, or of its conductor
            message = f"whether servers should run here is unknown: {error!r}"
            return set(), (Problem(item="Nova's database", message=message),)
        # One that Nova was starting meanwhile is here now.
        return {uuid for uuid in idle if self._hypervisor.guest(uuid) is None}, ()


def _comparable(domain: Domain, mdevs: Set[str]) -> Domain:
    seen = domain.occupancy
    unknown = seen.unknown - {HostResource.ENCRYPTION}
    occupancy = replace(seen, mdevs=seen.mdevs & mdevs, unknown=unknown)
    return replace(domain, occupancy=occupancy)


def _unseen(uuid: str) -> Domain:
    return Domain(uuid=uuid, name="", active=False, vcpus=None, memory_mb=None, gone=True)


#: The part of health that shows these audits.
PART = "domains"
#: Seconds between two audits: at least, and without an event of libvirt's.
GAP, INTERVAL = 1.0, 60.0


class DomainAudits:
    """They hold no lock of Nova's. :ivar auditor: for what it awaits."""

    def __init__(
        self, context: NodeContext, node: EmbeddedNode, hypervisor: Hypervisor, idle: IdleHere
    ) -> None:
        """:param idle: see `LiveDomains`."""
        self._reporter = context.reporter.named(__name__)
        live = LiveDomains(hypervisor, node.tracker.snapshot, idle)
        self.auditor = Auditor(node.tracker, live, context.clock, context.reporter, part=PART)
        node.tracker.creation.note_unobserved(PART, NodeNotReady())
        self._backoff = Backoff()
        self._cause = "start"

    def add_cause(self, cause: str) -> None:
        """Name what causes the next audit."""
        self._cause = cause

    def turn(self) -> Rest:
        """Run one audit."""
        cause, self._cause = self._cause, PERIODIC
        try:
            summary = self.auditor.run(cause)
        except (HypervisorUnavailable, StoreUnavailable, TrackerBusy) as error:
            self._reporter.log("warning", f"the domains are not compared: {error.message}")
            return every(self._backoff.pause())
        if not summary.good:
            return every(self._backoff.pause(summary.seconds))
        self._backoff.reset()
        pause = max(GAP, summary.seconds)
        return Rest(at_least=pause, at_most=pause if summary.skipped else max(pause, INTERVAL))
