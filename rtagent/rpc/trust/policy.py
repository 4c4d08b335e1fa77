"""Policy: decides by the rules of oslo.policy who may call a method."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from oslo_config import cfg
from oslo_policy.policy import RuleDefault

from rtagent.errors import ConfigError
from rtagent.ports import Clock, Reporter
from rtagent.rpc.method import Method
from rtagent.rpc.trust.authorization import not_authorized
from rtagent.rpc.trust.caller import Caller
from rtagent.rpc.trust.policy_rules import PolicyRules, credentials, files, read_rules, rule_name

#: Seconds between two checks whether the policy files have changed.
INTERVAL = 1.0
#: The number of decisions that are remembered.
MAX_DECISIONS = 4096


class Policy:
    """Thread-safe. Changed policy files take effect within seconds, also without SIGHUP. If one is
    wrong, the rules stay as they are.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        defaults: Sequence[RuleDefault],
        prefix: str,
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        """:param prefix: of the names of the API's rules. :raises ConfigError: a file is wrong."""
        self._conf, self._defaults, self._prefix = conf, defaults, prefix
        self._clock, self._reporter = clock, reporter.named(__name__)
        self._lock = threading.Lock()
        self._next = clock.monotonic() + INTERVAL
        self._stamp = _stamp(conf)
        self._decisions = Decisions(read_rules(conf, defaults))
        self._log_doubts()

    def authorize(self, caller: Caller, method: Method) -> None:
        """:raises NotAuthorized: the rule of the method does not allow the call."""
        if self._clock.monotonic() >= self._next:
            self._refresh()
        decisions, name = self._decisions, rule_name(self._prefix, method.name)
        if decisions.allows(name, caller):
            return
        role = method.role
        if decisions.overrides((name, method.role)):
            role = f"of the policy rule {name}"
        raise not_authorized(caller, method, role)

    def reload(self) -> None:
        """Read the policy files again."""
        with self._lock:
            self._read()

    def _refresh(self) -> None:
        """Read the policy files again if one has changed. One thread does that; others go on."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._next = self._clock.monotonic() + INTERVAL
            if _stamp(self._conf) != self._stamp:
                self._read()
        finally:
            self._lock.release()

    def _read(self) -> None:
        self._stamp = _stamp(self._conf)
        try:
            rules = read_rules(self._conf, self._defaults)
        except ConfigError as error:
            self._reporter.log("error", f"the policy stays as it was: {error}")
            return
        self._decisions = Decisions(rules)
        self._reporter.log("info", "the policy was read again")
        self._log_doubts()

    def _log_doubts(self) -> None:
        for doubt in self._decisions.rules.doubts:
            self._reporter.log("warning", doubt)


class Decisions:
    """What the rules allow, with the last decisions. Thread-safe.

    A rule sees nothing but the caller, so a decision is the same each time.
    """

    def __init__(self, rules: PolicyRules) -> None:
        self.rules = rules
        self._known: dict[tuple[str, Caller], bool] = {}

    def allows(self, name: str, caller: Caller) -> bool:
        """Return whether a rule allows a caller."""
        known = self._known.get((name, caller))
        if known is None:
            known = bool(self.rules.enforcer.enforce(name, {}, credentials(caller)))
            if len(self._known) >= MAX_DECISIONS:
                self._known.clear()
            self._known[name, caller] = known
        return known

    def overrides(self, names: Collection[str]) -> bool:
        """Return whether a file has one of these rules."""
        return not self.rules.sources.keys().isdisjoint(names)


def _stamp(conf: cfg.ConfigOpts) -> tuple[object, ...]:
    """Return what changes with the policy files."""
    try:
        found = [(path, path.stat()) for path in files(conf)]
    except (ConfigError, OSError):
        return ()
    return tuple((path, s.st_mtime_ns, s.st_size, s.st_ino) for path, s in found)
