"""CpuSets: whether the operator's CPU sets can be what they are on this host."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.errors import ConfigError
from rtagent.model.claim import PCPU
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.host import HostState
from rtagent.model.policy import Policy
from rtagent.numa import cpu_sets
from rtagent.ports import Reporter

PART = "cpus"


class CpuSets:
    """Sets that name a CPU which is not there end a start and are refused at a reload. A CPU that
    goes while the agent runs is a warning: what is held stays held."""

    def __init__(
        self,
        snapshot: Callable[[], HostState],
        reporter: Reporter,
        failed: Callable[[ConfigError], None],
    ) -> None:
        """:param failed: told of sets that are wrong at the first look at the host."""
        self._snapshot, self._reporter, self._failed = snapshot, reporter, failed
        self._accepted = False

    def look(self) -> bool:
        """The host has been looked at: whether it may be served."""
        state = self._snapshot()
        try:
            away = missing(state, state.policy)
        except ConfigError as error:
            if not self._accepted:
                self._failed(error)
                return False
            self._reporter.health(PART, "warn", error.message)
            return True
        self._accepted = True
        kept = f"CPUs {format_cpu_spec(away)} are held and not there: they stay with their holders"
        self._reporter.health(PART, "warn" if away else "pass", kept if away else "")
        return True

    def check(self, policy: Policy) -> None:
        """Whether this policy could be in force here; a host never seen allows any.

        :raises ConfigError:
        """
        missing(self._snapshot(), policy)


def missing(state: HostState, policy: Policy) -> frozenset[int]:
    """CPUs of the policy's sets that are absent or offline, all of them held.

    :raises ConfigError: one is not held, or the sets are wrong in themselves.
    """
    if state.topology is None:
        return frozenset()
    held = frozenset(int(name) for kind, name in state.units if kind == PCPU)
    return cpu_sets.check(policy.numa, state.topology, policy.reserved_cpus, held)
