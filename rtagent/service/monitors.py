"""Monitors: measure the host with the compute monitors, and pass the metrics on."""

import math
from collections.abc import Callable, Mapping, Sequence

from rtagent.errors import HypervisorUnavailable, StoreUnavailable
from rtagent.model.metric import Metric
from rtagent.model.node_state import NodeState
from rtagent.ports import Hypervisor
from rtagent.service.context import Measured, NodeContext, Reloaded
from rtagent.service.loop import Rest, every
from rtagent.virt import monitors

#: Writes the metrics of a node and an epoch to the database; raises `StoreUnavailable`.
Write = Callable[[str, int, Sequence[Metric]], None]
#: Seconds between two events of measurements, as between two of Nova's notifications.
ANNOUNCE_INTERVAL = 60.0


class Monitors:
    """The turns of the thread ``monitors``.

    :ivar metrics: the last measurement; any thread may read it.
    """

    def __init__(
        self,
        context: NodeContext,
        hypervisor: Hypervisor,
        snapshot: Callable[[], NodeState],
        write: Write,
        wake: Callable[[], None],
    ) -> None:
        """:param wake: runs the next turn soon."""
        self._context, self._hypervisor = context, hypervisor
        self._snapshot, self._write = snapshot, write
        self._reporter = context.reporter.named(__name__)
        self._names: Sequence[str] = ()
        self._monitors: Mapping[str, monitors.Monitor] = {}
        self._missing: dict[str, frozenset[str]] = {}
        self._written: tuple[Metric, ...] | None = None
        self._next_announcement = -math.inf
        self.metrics: tuple[Metric, ...] = ()
        context.bus.subscribe(Reloaded, lambda _: wake())

    def current(self) -> tuple[Metric, ...]:
        """Return the last measurement."""
        return self.metrics

    def turn(self) -> Rest:
        """Measure, record and pass on. Without monitors, only remove what was recorded."""
        options = self._context.settings.current.default
        if options.compute_monitors != self._names:
            self._monitors = monitors.load(options.compute_monitors, self._hypervisor)
            self._names, self._missing = options.compute_monitors, {}
        self.metrics = tuple(
            metric
            for name, monitor in self._monitors.items()
            for metric in self._from(name, monitor)
        )
        recorded = self._record()
        self._announce()
        return Rest() if recorded and not self._monitors else every(options.report_interval)

    def _from(self, name: str, monitor: monitors.Monitor) -> tuple[Metric, ...]:
        try:
            metrics = monitor.measure(self._context.clock.now())
        except HypervisorUnavailable:  # the audit reports it
            return ()
        except Exception as error:  # of one monitor, perhaps of another package; the others go on
            self._reporter.log("warning", f"monitor {name} fails: {error!r}")
            return ()
        missing = monitor.names - {metric.name for metric in metrics}
        if missing != self._missing.get(name, frozenset()):
            self._missing[name] = missing
            if missing:
                listed = ", ".join(sorted(missing))
                self._reporter.log("warning", f"monitor {name} gives no {listed} on this host")
        return metrics

    def _announce(self) -> None:
        now = self._context.clock.monotonic()
        if self.metrics and now >= self._next_announcement:
            self._next_announcement = now + ANNOUNCE_INTERVAL
            self._context.bus.publish(Measured(metrics=self.metrics))

    def _record(self) -> bool:
        """Write the metrics to the node's record. Return whether it has them."""
        if self.metrics == self._written:
            return True
        state = self._snapshot()
        try:
            self._write(state.node.uuid, state.epoch, self.metrics)
        except StoreUnavailable:  # the heartbeat reports it
            return False
        self._written = self.metrics
        return True
