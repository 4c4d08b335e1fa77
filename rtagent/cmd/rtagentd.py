"""rtagentd: the daemon."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log

from rtagent import __version__
from rtagent.clock import SystemClock
from rtagent.conf import load
from rtagent.conf.libraries import log_options
from rtagent.conf.settings import Settings
from rtagent.errors import ConfigError, IdentityError, SchemaMismatch, WriterFenced
from rtagent.service import assembly
from rtagent.service.agent import Accept, Agent
from rtagent.telemetry.telemetry import Telemetry

PROG = "rtagentd"

#: sysexits.h's EX_CONFIG: only a person can help; the systemd unit does not restart after it.
EX_CONFIG = 78

TAKE_OVER = cfg.BoolOpt(
    "take-over",
    default=False,
    help="Become the node's writer although another agent was seen a moment ago: it is gone.",
)

#: What a library says at INFO of itself, not of us.
QUIETER = ("alembic.runtime.plugins=WARNING",)

#: What oslo.log raises of a file, a level or a facility that it cannot have.
LOG_REFUSALS = (log.LogConfigError, OSError, RuntimeError, TypeError, ValueError)

LOG = log.getLogger(load.PROJECT)


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), *QUIETER])
    # The global one: oslo.messaging and oslo.log look at it in places.
    conf = cfg.CONF
    try:
        settings = read(conf, args)
    except ExceptionGroup as group:
        for error in group.exceptions:
            print(f"{PROG}: {error}", file=sys.stderr)
        return EX_CONFIG
    try:
        log.setup(conf, load.PROJECT, __version__)
    except LOG_REFUSALS as error:
        print(f"{PROG}: [DEFAULT] {', '.join(log_options(conf))}: {error}", file=sys.stderr)
        return EX_CONFIG
    return run(conf, args, settings)


def read(conf: cfg.ConfigOpts, args: Sequence[str]) -> Settings:
    """Parse and judge the whole configuration. :raises ExceptionGroup: of `ConfigError`."""
    load.parse(conf, args, PROG, [TAKE_OVER])
    found = conf.get_location(TAKE_OVER.dest)
    if conf.take_over and (found is None or found.location is not cfg.Locations.command_line):
        rule = "may be given on the command line only, or it would hold for every start"
        error = ConfigError(group="DEFAULT", option=TAKE_OVER.dest, value="True", rule=rule)
        raise ExceptionGroup("the configuration cannot be used", [error])
    return assembly.checked(conf)


def run(conf: cfg.ConfigOpts, args: Sequence[str], settings: Settings) -> int:
    """Serve until a signal ends it; the exit code."""

    def reload(accept: Accept) -> Settings:
        # Judged whole in a configuration of its own: a bad one leaves no trace in ours.
        accept(read(cfg.ConfigOpts(), args))
        # Logs each option that changed, and each that would need a restart to.
        conf.mutate_config_files()
        return warned(assembly.checked(conf))

    warned(settings)
    clock = SystemClock()
    telemetry = Telemetry(clock)
    agent = Agent(conf, settings, telemetry, clock, reload=reload, take_over=conf.take_over)
    code, ended_by = 0, ""
    try:
        agent.run()
    except (ConfigError, IdentityError, SchemaMismatch, WriterFenced) as error:
        code, ended_by = EX_CONFIG, error.message
    if ended_by:  # here, or oslo.log would add the error to its own sentence
        LOG.error(ended_by)
    if agent.blocked:
        logging.shutdown()
        os._exit(code)
    return code


def warned(settings: Settings) -> Settings:
    """The same, after its doubts were told."""
    for doubt in settings.doubts():
        LOG.warning(doubt)
    return settings


if __name__ == "__main__":
    sys.exit(main())
