"""rtagentd: the daemon."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log

from rtagent import __version__
from rtagent.conf import load
from rtagent.conf.libraries import log_options
from rtagent.conf.settings import Settings
from rtagent.embedded import SystemClock
from rtagent.errors import (
    ConfigError,
    IdentityError,
    NotDurable,
    SchemaMismatch,
    StoreDamaged,
    WriterFenced,
)
from rtagent.service.agent import Agent
from rtagent.service.configuration import Configuration
from rtagent.service.main_thread import EventQueue
from rtagent.telemetry.log_queue import LogQueue
from rtagent.telemetry.telemetry import Telemetry

PROG = "rtagentd"

#: EX_CONFIG of sysexits.h: only an operator can help. The systemd unit does not restart after it.
EX_CONFIG = 78

#: Other users can read no file that the daemon makes; its group can.
UMASK = 0o027

#: A defect. It is what Python exits with after an unhandled error.
EX_SOFTWARE = 1

#: Libraries whose messages at level INFO are about themselves only.
QUIETER = ("alembic.runtime.plugins=WARNING",)

#: What oslo.log raises for a file, a level or a facility that it cannot use.
LOG_REFUSALS = (log.LogConfigError, OSError, RuntimeError, TypeError, ValueError)

LOG = log.getLogger("rtagent.cmd.rtagentd")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon and return its exit code."""
    events = EventQueue()
    events.catch_signals()
    os.umask(os.umask(UMASK) | UMASK)
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), *QUIETER])
    # The global one, because oslo.messaging and oslo.log use it in places.
    conf = cfg.CONF
    configuration = Configuration(conf, PROG, sys.argv[1:] if argv is None else argv)
    try:
        settings = configuration.read()
    except ExceptionGroup as group:
        for error in group.exceptions:
            print(f"{PROG}: {error}", file=sys.stderr)
        return EX_CONFIG
    try:
        log.setup(conf, load.PROJECT, __version__)
    except LOG_REFUSALS as error:
        print(f"{PROG}: [DEFAULT] {', '.join(log_options(conf))}: {error}", file=sys.stderr)
        return EX_CONFIG
    return run(configuration, settings, events)


def run(configuration: Configuration, settings: Settings, events: EventQueue) -> int:
    """Serve until a signal asks to stop, and return the exit code."""
    clock = SystemClock()
    telemetry = Telemetry(clock)
    log_queue = LogQueue(telemetry.counted)
    log_queue.adopt()
    configuration.after_reload(log_queue.adopt)
    agent = Agent(configuration, settings, telemetry, clock, events)
    code, ended_by = 0, ""
    try:
        agent.run()
    except (
        ConfigError,
        IdentityError,
        NotDurable,
        SchemaMismatch,
        StoreDamaged,
        WriterFenced,
    ) as error:
        code, ended_by = EX_CONFIG, error.message
    except Exception:  # logged here, because the interpreter would wait for the log without limit
        code = EX_SOFTWARE
        LOG.critical("Unhandled error", exc_info=True)
    if ended_by:  # here, or oslo.log would append the error to the line
        LOG.error(ended_by)
    if not log_queue.close() or agent.blocked:
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
