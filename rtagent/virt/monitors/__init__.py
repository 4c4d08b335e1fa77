"""Compute monitors: what ``[DEFAULT] compute_monitors`` names."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from rtagent.errors import ConfigError
from rtagent.model.metric import Metric
from rtagent.ports import Hypervisor
from rtagent.scheduler import plugins

#: The entry points. A name has a type and a name of that type, as Nova's namespaces
#: ``nova.compute.monitors.TYPE`` have: ``cpu.virt_driver``.
NAMESPACE = "rtagent.compute.monitors"
OPTION = "compute_monitors"


class Monitor(Protocol):
    """Measures one aspect of a host. For one thread. Made with the host's `Hypervisor`.

    :ivar names: of the metrics that a complete measurement has.
    """

    names: frozenset[str]

    def measure(self, at: datetime) -> tuple[Metric, ...]:
        """Return the present values. :raises HypervisorUnavailable:"""


def check(names: Sequence[str]) -> None:
    """:raises ConfigError: a name is unknown, or two monitors have the same type."""
    _classes(names)


def load(names: Sequence[str], hypervisor: Hypervisor) -> Mapping[str, Monitor]:
    """Return the monitors by name. :raises ConfigError: see `check`."""
    return {name: make(hypervisor) for name, make in _classes(names).items()}


def _classes(names: Sequence[str]) -> Mapping[str, type]:
    chosen: dict[str, str] = {}
    for name in dict.fromkeys(names):
        other = chosen.setdefault(name.partition(".")[0], name)
        if other != name:
            rule = f"has two monitors of one type: {other} and {name}. Name one of them"
            value = ", ".join(names)
            raise ConfigError(group="DEFAULT", option=OPTION, value=value, rule=rule)
    classes = plugins.load(NAMESPACE, list(chosen.values()), OPTION, group="DEFAULT")
    return dict(zip(chosen.values(), classes, strict=True))
