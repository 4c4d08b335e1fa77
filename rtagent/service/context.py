"""What the parts of a node's process share, and the events by which they tell each other what
happens. `rtagent.bus` and `rtagent.audit` have those of the tracker and of audits.
"""

from rtagent.bus import Bus
from rtagent.conf.settings import SettingsHolder
from rtagent.errors import DuplicateHost, RtAgentError
from rtagent.model.base import Value
from rtagent.model.metric import Metric
from rtagent.ports import Clock, Reporter, Service


class NodeContext(Value, frozen=True, kw_only=True):
    """The objects that every part uses. :ivar bus: of the tracker, too."""

    settings: SettingsHolder
    clock: Clock
    reporter: Reporter
    bus: Bus


class Granting(Value, frozen=True, kw_only=True):
    """Claims are granted: the first good audit after a start or a loss has ended."""


class HypervisorLost(Value, frozen=True, kw_only=True):
    """The hypervisor is unavailable: calls that create claims are refused."""


class HypervisorEvent(Value, frozen=True, kw_only=True):
    """The hypervisor reports a change. :ivar name: see `Hypervisor.start`."""

    name: str


class StoreReturned(Value, frozen=True, kw_only=True):
    """The store is back, and the state was reloaded from it."""


class PolicyChanged(Value, frozen=True, kw_only=True):
    """The policy has changed."""


class ServiceChanged(Value, frozen=True, kw_only=True):
    """The service was disabled, enabled or forced down, or no longer is.

    :ivar why_forced_down: why no claim is granted; "": it is not forced down.
    """

    service: Service
    why_forced_down: str


class DuplicateChanged(Value, frozen=True, kw_only=True):
    """Another agent has this host name; None: it has gone."""

    error: DuplicateHost | None


class Measured(Value, frozen=True, kw_only=True):
    """The compute monitors have measured the host, which is published now and then."""

    metrics: tuple[Metric, ...]


class Reloaded(Value, frozen=True, kw_only=True):
    """New settings are in force."""


class Fatal(Value, frozen=True, kw_only=True):
    """This process must end, and an operator has to correct the cause.

    Another process has fenced it, the hypervisor is another machine than before, or the
    configuration does not fit the host.
    """

    error: RtAgentError
