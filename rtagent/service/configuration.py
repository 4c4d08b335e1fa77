"""Configuration: the daemon's command line and files, checked as a whole, at start and reload."""

from collections.abc import Callable, Iterable, Sequence

from oslo_config import cfg
from oslo_log import log

from rtagent.api.address import parse
from rtagent.api.guard import Guard
from rtagent.conf import libraries, load, placement
from rtagent.conf.options import note
from rtagent.conf.settings import Settings
from rtagent.db.engine import open_engine
from rtagent.errors import ConfigError
from rtagent.model.base import Value
from rtagent.model.policy import ManageAllocations
from rtagent.placement import loading
from rtagent.rpc.transport import get_transport
from rtagent.service.trust import check_keys, effective_rules
from rtagent.virt import monitors

TAKE_OVER = cfg.BoolOpt(
    "take-over",
    default=False,
    help=(
        "Become the writer of the node even if another agent sent a heartbeat within"
        " service_down_time. Use it only if that agent is gone for good."
    ),
)

REBUILD = cfg.BoolOpt(
    "rebuild",
    default=False,
    help=(
        "If the embedded database is damaged, set its files aside and begin without claims: what"
        " runs on the host is counted, and listed in the log. Use it only if there is no backup."
    ),
)


class Rules(Value, frozen=True, kw_only=True):
    """What a daemon adds to the rules of the options.

    :ivar once: options for one start, which no file may set.
    :ivar accept: returns the checks by which adapters and libraries accept the settings; each one
        raises `ConfigError`, and connects and writes nothing.
    """

    once: tuple[cfg.Opt, ...]
    accept: Callable[[cfg.ConfigOpts, Settings], Iterable[Callable[[], object]]]


class Configuration:
    """The files and the command line of one daemon.

    :ivar conf: the parsed configuration. Libraries read their options from it.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, prog: str, args: Sequence[str], rules: Rules | None = None
    ) -> None:
        """:param conf: not parsed yet. :param args: the command line without the program's name.
        :param rules: None: those of rtagentd.
        """
        self.conf, self._prog, self._args = conf, prog, args
        self._rules = rules or AGENT
        self._after_reload: Callable[[], None] = lambda: None

    def after_reload(self, callback: Callable[[], None]) -> None:
        """Call `callback` when a reload has configured the log anew."""
        self._after_reload = callback

    @property
    def take_over(self) -> bool:
        """Whether the operator has confirmed that another writer of the node is gone."""
        return bool(self.conf.take_over)

    @property
    def rebuild(self) -> bool:
        """Whether a damaged database is set aside."""
        return bool(self.conf.rebuild)

    def read(self) -> Settings:
        """Parse `conf` and check it. :raises ExceptionGroup: of `ConfigError`: every mistake."""
        return self._read(self.conf)

    def candidate(self) -> Settings:
        """Return the settings that a reload would apply. Change nothing.

        The files are parsed into a configuration of their own, so that a mistake does not change
        `conf`. :raises ExceptionGroup: of `ConfigError`: every mistake.
        """
        return self._read(cfg.ConfigOpts())

    def reload(self, candidate: Settings) -> Settings:
        """Apply the mutable options of the files.

        oslo.config logs each option that has changed, and each changed option that needs a restart.

        :param candidate: has been checked. Its provider files and flavors are applied, even if the
            files have changed since.
        :raises ExceptionGroup: of `ConfigError`: every mistake.
        """
        try:
            self.conf.mutate_config_files()
        finally:
            self._after_reload()
        return checked(self.conf, candidate, self._rules)

    def _read(self, conf: cfg.ConfigOpts) -> Settings:
        once = self._rules.once
        log.register_options(conf)
        load.parse(conf, self._args, self._prog, once)
        rule = "may be given on the command line only, or it would apply to every start"
        errors = [
            ConfigError(group="DEFAULT", option=option.dest, value="True", rule=rule)
            for option in once
            if conf[option.dest] and not _on_command_line(conf, option.dest)
        ]
        if errors:
            raise ExceptionGroup("the configuration cannot be used", errors)
        return checked(conf, rules=self._rules)


def _on_command_line(conf: cfg.ConfigOpts, name: str) -> bool:
    found = conf.get_location(name)
    return found is not None and found.location is cfg.Locations.command_line


def _check_placement(conf: cfg.ConfigOpts, settings: Settings) -> None:
    """:raises ConfigError: there is no valid client of Placement where one is needed."""
    mode = settings.placement.manage_allocations
    if loading.load(conf) is None and mode != ManageAllocations.NO:
        raise ConfigError(
            group=placement.GROUP,
            option="auth_type",
            value="",
            rule=f"must be set with manage_allocations = {mode}",
        )


def _accept(conf: cfg.ConfigOpts, settings: Settings) -> Iterable[Callable[[], object]]:
    return (
        lambda: Guard(parse(settings.api.address), settings.api),
        lambda: open_engine(settings.database.connection, 1),
        lambda: monitors.check(settings.default.compute_monitors),
        lambda: _check_placement(conf, settings),
        lambda: check_keys(settings),
        lambda: effective_rules(conf),
        lambda: get_transport(conf).cleanup(),
    )


#: The rules of rtagentd.
AGENT = Rules(once=(TAKE_OVER, REBUILD), accept=_accept)


def checked(conf: cfg.ConfigOpts, before: Settings | None = None, rules: Rules = AGENT) -> Settings:
    """Return the settings of a parsed configuration, after a check that every adapter and library
    accepts them.

    Nothing is connected and nothing is written.

    :param before: as for `load.judge`.
    :raises ExceptionGroup: of `ConfigError`: every mistake.
    """
    settings, mistakes = load.judge(conf, before)
    ours = len(mistakes)
    libraries.judge(conf, mistakes)
    theirs = len(mistakes) - ours
    for accept in rules.accept(conf, settings):
        try:
            accept()
        except ConfigError as error:
            note(mistakes, error)
        except (cfg.Error, TypeError):  # an unreadable or empty option of a library
            if not theirs:  # else it was noted above
                raise
    load.refuse(mistakes)
    return settings
