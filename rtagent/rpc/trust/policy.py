"""Policy: decides by the rules of oslo.policy who may call a method.

oslo.policy denies what it cannot understand, and only logs that. Here it is an error, which names
the file, the rule and the remedy.
"""

import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_policy import opts, policy
from oslo_policy.policy import RuleDefault

from rtagent.conf.rpc import ROLES
from rtagent.errors import ConfigError
from rtagent.model.base import Value
from rtagent.ports import Clock, Reporter
from rtagent.rpc.method import Method
from rtagent.rpc.trust.access import Caller, not_authorized
from rtagent.rpc.trust.keys import read_file

GROUP = "oslo_policy"
#: The size of a file in bytes.
MAX_SIZE = 2**20
EXAMPLE = "such as 'role:conductor or rule:reader'"
#: A check that always fails. It is also what oslo.policy makes of what it does not understand.
_NEVER = re.compile(r"(?<!\S)\(*!\)*(?!\S)")
#: A check that calls another server, and one that refers to another rule.
_REMOTE = re.compile(r"(?<!\S)\(*https?:")
_REFERENCE = re.compile(r"(?<!\S)\(*rule:([^\s)]+)")


class PolicyRules(Value, frozen=True, kw_only=True):
    """:ivar enforcer: decides by the rules. :ivar sources: by a rule's name: the file that has it.
    :ivar doubts: a sentence for each rule that is never used.
    """

    enforcer: policy.Enforcer
    sources: Mapping[str, Path]
    doubts: Sequence[str]


def rule_name(prefix: str, method: str) -> str:
    """Return the name of a method's rule. :param prefix: of its API."""
    return f"{prefix}:{method}"


def credentials(caller: Caller) -> dict[str, Any]:
    """Return what a rule may check: ``role:``, ``name:``, ``proved:`` and ``host:``."""
    return {
        "roles": sorted(caller.roles),
        "name": caller.name,
        "proved": caller.proved,
        "host": caller.host or "",
    }


def files(conf: cfg.ConfigOpts) -> list[Path]:
    """Return the policy files, in the order in which they override each other.

    :raises ConfigError: a file that the configuration names does not exist.
    """
    opts.set_defaults(conf)
    named = conf.oslo_policy.policy_file
    found = conf.find_file(named)
    if found is None and _is_set(conf, "policy_file"):
        raise _wrong(named, "is not a file: create it, or unset the option")
    paths = [] if found is None else [Path(found)]
    for directory in conf.oslo_policy.policy_dirs:
        place = conf.find_file(directory)
        if place is not None and os.path.isdir(place):
            inside = (each for each in Path(place).iterdir() if not each.name.startswith("."))
            paths += sorted(each for each in inside if each.is_file())
    return paths


def read_rules(conf: cfg.ConfigOpts, defaults: Sequence[policy.RuleDefault]) -> PolicyRules:
    """Read the policy files, and check the rules. :raises ConfigError: one is wrong."""
    rules = {default.name: default.check for default in defaults}
    known, sources = frozenset(rules), dict[str, Path]()
    for path in files(conf):
        for name, check in _read(path).items():
            rules[name], sources[name] = check, path
    made = policy.Enforcer(conf)
    made.set_rules(rules)
    try:
        made.check_rules(raise_on_violation=True)
    except RecursionError as error:
        places = ", ".join(map(str, sorted(set(sources.values()))))
        raise _wrong(places, "too many rules refer to each other in a row") from error
    except policy.InvalidDefinitionError as error:
        names = [name for name in sources if f"'{name}'" in str(error)]
        rule = f"{', '.join(names)}: refers to itself, or to a rule that does not exist"
        raise _wrong(", ".join(map(str, sorted(set(sources.values())))), rule) from error
    _try(made, sources)
    return PolicyRules(enforcer=made, sources=sources, doubts=tuple(_doubts(rules, sources, known)))


def _read(path: Path) -> Mapping[str, Any]:
    """Return the checks in a file, by the names of their rules."""
    try:
        data = read_file(path, MAX_SIZE)
    except ValueError as error:
        raise _wrong(path, str(error)) from error
    try:
        texts: object = policy.parse_file_contents(data)
    except (ValueError, RecursionError) as error:
        raise _wrong(path, f"is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(texts, dict):
        raise _wrong(path, "must map names of rules to rules, as rtagent policy generate prints")
    return {name: _check(path, name, text) for name, text in texts.items()}


def _check(path: Path, name: object, text: object) -> Any:
    """Return the check that a file has for a rule."""
    if not isinstance(name, str) or not isinstance(text, str):
        raise _wrong(path, f"{name}: must be text, {EXAMPLE}")
    try:
        check = policy.RuleDefault(name, text).check
        understood = str(check)
    except RecursionError as error:
        raise _wrong(path, f"{name}: has too many levels, {EXAMPLE}") from error
    if len(_NEVER.findall(understood)) > len(_NEVER.findall(text)):
        raise _wrong(path, f"{name}: '{text}' is not a rule, {EXAMPLE}")
    if _REMOTE.search(understood):
        rule = f"{name}: '{text}' would call another server, for which every call would wait"
        raise _wrong(path, f"{rule}: use roles")
    return check


def _try(enforcer: policy.Enforcer, sources: Mapping[str, Path]) -> None:
    """Evaluate each rule of the files once. oslo.policy finds some mistakes only then."""
    for name, path in sources.items():
        for roles in ((), ROLES):
            caller = Caller(name="", roles=frozenset(roles))
            try:
                enforcer.enforce(name, {}, credentials(caller))
            except Exception as error:
                raise _wrong(path, f"{name}: cannot be evaluated ({error!r}), {EXAMPLE}") from error


def _doubts(
    rules: Mapping[str, Any], sources: Mapping[str, Path], known: Collection[str]
) -> Iterator[str]:
    """Yield a sentence for each rule of a file that no method and no other rule uses."""
    used = {name for check in rules.values() for name in _REFERENCE.findall(str(check))}
    for name, path in sources.items():
        if name not in known and name not in used:
            yield (
                f"{path}: {name} is not the name of a rule, and no rule refers to it: the command"
                " rtagent policy list shows the names"
            )


def _wrong(path: object, rule: str) -> ConfigError:
    return ConfigError(group=GROUP, option="policy_file", value=str(path), rule=rule)


def _is_set(conf: cfg.ConfigOpts, option: str) -> bool:
    place = conf.get_location(option, GROUP)
    return place is not None and place.location.is_user_controlled


#: Seconds between two checks whether the policy files have changed.
INTERVAL = 1.0
#: The number of decisions that are remembered.
MAX_DECISIONS = 4096


class AccessPolicy:
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
        self._use(read_rules(conf, defaults))

    def authorize(self, caller: Caller, method: Method) -> None:
        """:raises NotAuthorized: the rule of the method does not allow the call."""
        if self._clock.monotonic() >= self._next:
            self._refresh()
        name = rule_name(self._prefix, method.name)
        if self._allows(name, caller):
            return
        overridden = {name, method.role} & self._sources.keys()
        role = f"of the policy rule {name}" if overridden else method.role
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
        self._reporter.log("info", "the policy was read again")
        self._use(rules)

    def _use(self, rules: PolicyRules) -> None:
        # A rule sees nothing but the caller, so a decision is the same each time.
        @lru_cache(maxsize=MAX_DECISIONS)
        def allows(name: str, caller: Caller) -> bool:
            return bool(rules.enforcer.enforce(name, {}, credentials(caller)))

        self._allows, self._sources = allows, rules.sources
        for doubt in rules.doubts:
            self._reporter.log("warning", doubt)


def _stamp(conf: cfg.ConfigOpts) -> tuple[object, ...]:
    """Return what changes with the policy files."""
    try:
        found = [(path, path.stat()) for path in files(conf)]
    except (ConfigError, OSError):
        return ()
    return tuple((path, s.st_mtime_ns, s.st_size, s.st_ino) for path, s in found)
