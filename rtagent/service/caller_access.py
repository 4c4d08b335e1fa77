"""CallerAccess: the policy and the bounds for the callers of a daemon."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.conf.settings import SettingsHolder
from rtagent.ports import Clock, Reporter
from rtagent.rpc.policies import PREFIXES, default_rules
from rtagent.rpc.trust.access import Access, CallerBounds
from rtagent.rpc.trust.policy import Policy, PolicyRules, read_rules


class CallerAccess:
    """:ivar access: for the daemon's endpoint."""

    def __init__(
        self,
        topic: str,
        conf: cfg.ConfigOpts,
        settings: SettingsHolder,
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        """:param topic: of the daemon's API. :raises ConfigError: a policy file is wrong."""
        self._policy = Policy(conf, default_rules(), PREFIXES[topic], clock, reporter)
        bounds = CallerBounds(lambda: settings.current.rpc, clock)
        self.access = Access(reporter, self._policy.authorize, bounds)

    def reload(self) -> None:
        """Read the policy files again. If one is wrong, the policy stays as it was."""
        self._policy.reload()


def effective_rules(conf: cfg.ConfigOpts) -> PolicyRules:
    """Return the policy of both daemons, which may share its files. :raises ConfigError:"""
    return read_rules(conf, default_rules())
