"""HostChecks, ProviderFileChecks: check that the operator's CPU sets, device specifications and
provider files fit this host.

A configuration that does not fit stops the start, and is refused at a reload. What begins to
contradict the host while the agent runs causes a warning, and existing allocations stay. A device
that does not fit its specification is left out, see `rtagent.reconcile.steps`.
"""

from collections.abc import Iterator, Sequence

from rtagent.conf.settings import Settings
from rtagent.embedded import EmbeddedNode
from rtagent.errors import ConfigError, PciConfigInvalidSpec
from rtagent.model.claim import PCPU, RESOURCE
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.node_state import NodeState
from rtagent.model.policy import Policy
from rtagent.model.printable import printable
from rtagent.numa import host_cpus
from rtagent.numa.search import check_networks
from rtagent.pci.pmem import missing_error, missing_namespaces
from rtagent.pci.specs import spec_errors
from rtagent.placement.offers import Offers
from rtagent.reconcile.drift import CPU, absent
from rtagent.service.context import Fatal, NodeContext

#: The parts of health that the checks report.
CPUS, NETWORKS, DEVICES, NAMESPACES = "cpus", "networks", "devices", "namespaces"


class HostChecks:
    """Checks the policy against the host after each audit, and before a reload."""

    def __init__(self, context: NodeContext, host: EmbeddedNode) -> None:
        self._context, self._host = context, host
        self._reporter = context.reporter.named(__name__)
        #: The parts that have fitted once.
        self._accepted: set[str] = set()

    def accept(self) -> bool:
        """Check the policy in force after a good audit; return whether the node can be served.

        A policy that does not fit at the first check is fatal.
        """
        state = self._host.state
        checks = (self._cpus, self._networks, self._namespaces, self._devices)
        return all(check(state) for check in checks)

    def check(self, policy: Policy) -> None:
        """Check a new policy. Any policy fits a host that was never observed.

        :raises ConfigError: the policy does not fit this host.
        """
        missing_cpus(self._host.state, policy)
        if self._host.state.topology is not None:
            check_networks(policy.numa.networks, self._host.state.topology)
        for wrong in self._wrong_specs(policy):
            raise wrong
        if absent_names := self._missing_namespaces(policy):
            raise missing_error(absent_names)

    def _settle(self, part: str, mistake: ConfigError | None = None, warning: str = "") -> bool:
        """Report what a check has found. A mistake is fatal until the part has fitted once."""
        if mistake is None:
            self._accepted.add(part)
        elif part not in self._accepted:
            self._context.bus.publish(Fatal(error=mistake))
            return False
        why = warning if mistake is None else mistake.message
        self._reporter.health(part, "warn" if why else "pass", why)
        return True

    def _cpus(self, state: NodeState) -> bool:
        try:
            missing = missing_cpus(state, state.policy)
        except ConfigError as error:
            return self._settle(CPUS, error)
        cpus = format_cpu_spec(missing)
        why = f"CPUs {cpus} are missing or offline, but stay allocated to their guests"
        return self._settle(CPUS, warning=why if missing else "")

    def _networks(self, state: NodeState) -> bool:
        if state.topology is None:
            return True
        try:
            check_networks(state.policy.numa.networks, state.topology)
        except ConfigError as error:
            return self._settle(NETWORKS, error)
        return self._settle(NETWORKS)

    def _devices(self, state: NodeState) -> bool:
        known = DEVICES in self._accepted
        wrong = None if known else next(self._wrong_specs(state.policy), None)
        missing = ", ".join(drift.resource for drift in absent(state) if drift.unit != CPU)
        why = f"missing or no longer configured, but still allocated to guests: {missing}"
        return self._settle(DEVICES, wrong, why if missing else "")

    def _namespaces(self, state: NodeState) -> bool:
        """Refuse namespaces that the host lacks, at the first list of them. Those that vanish later
        are no longer available."""
        if not state.policy.pci.pmem:
            return True
        if names := self._missing_namespaces(state.policy):
            return self._settle(NAMESPACES, missing_error(names))
        if self._host.auditor.namespaces is None:
            self._reporter.health(NAMESPACES, "warn", "cannot be listed")
            return True
        return self._settle(NAMESPACES)

    def _missing_namespaces(self, policy: Policy) -> Sequence[str]:
        held = {name for kind, name in self._host.state.units if kind == RESOURCE}
        seen = self._host.auditor.namespaces
        return () if seen is None else missing_namespaces(policy.pci.pmem, seen, held)

    def _wrong_specs(self, policy: Policy) -> Iterator[PciConfigInvalidSpec]:
        """Return the specifications that name a device which cannot have their properties."""
        return spec_errors(policy.pci.specs, self._host.auditor.devices or ())


def missing_cpus(state: NodeState, policy: Policy) -> frozenset[int]:
    """Return the CPUs of the policy's sets that are absent or offline; all of them are allocated.

    :raises ConfigError: one of them is not allocated, or the sets contradict each other.
    """
    if state.topology is None:
        return frozenset()
    held = frozenset(int(name) for kind, name in state.units if kind == PCPU)
    return host_cpus.check(policy.numa, state.topology, policy.reserved_cpus, held)


#: The part of health that the checks report.
PROVIDER_FILES = "provider_files"


class ProviderFileChecks:
    """Checks the files against the host after each audit, and before a reload."""

    def __init__(self, context: NodeContext, host: EmbeddedNode) -> None:
        self._context, self._host = context, host
        self._reporter = context.reporter.named(__name__)
        self._accepted = False
        # Entries without a provider of which the log has a line.
        self._absent: frozenset[str] = frozenset()

    def accept(self) -> bool:
        """Check the files in force after a good audit; return whether the node can be served.

        Files that do not fit at the first check are fatal.
        """
        offers = self._host.offers_from(self._context.settings.current)
        self._log_absent(offers)
        texts = [error.message for error in offers.mistakes]
        if texts and not self._accepted:
            for text in texts[1:]:  # the first one is the last line of the log
                self._reporter.log("error", text)
            self._context.bus.publish(Fatal(error=offers.mistakes[0]))
            return False
        self._accepted = True
        self._reporter.health(PROVIDER_FILES, "warn" if texts else "pass", "; ".join(texts))
        return True

    def check(self, settings: Settings) -> None:
        """Check new files. :raises ExceptionGroup: of `ConfigError`: every mistake."""
        if mistakes := self._host.offers_from(settings).mistakes:
            raise ExceptionGroup("the provider files do not fit this host", mistakes)

    def _log_absent(self, offers: Offers) -> None:
        """Log each entry whose provider is absent, once until the provider is there."""
        for entry in offers.absent:
            if entry.origin not in self._absent:
                self._reporter.log(
                    "warning",
                    f"{entry.origin}: this host has no provider"
                    f" {printable(entry.identification)}: ignored until it has",
                )
        self._absent = frozenset(entry.origin for entry in offers.absent)
