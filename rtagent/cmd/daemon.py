"""What the daemons have in common before and after they serve: log, exit codes, the last lines."""

import os
import sys
from collections.abc import Callable, Sequence

from oslo_config import cfg
from oslo_log import log

from rtagent import __version__
from rtagent.conf import load
from rtagent.conf.libraries import log_options
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.embedded import SystemClock
from rtagent.errors import (
    ConfigError,
    IdentityError,
    NotDurable,
    SchemaMismatch,
    StoreDamaged,
    WriterFenced,
)
from rtagent.model.printable import printable
from rtagent.service.configuration import Configuration
from rtagent.service.main_thread import EventQueue
from rtagent.service.process import Process, ProcessContext, StartProgram, measure_threads
from rtagent.service.state_report import StateReport
from rtagent.service.systemd import Liveness, Notifier
from rtagent.telemetry.log_queue import MAX_LINE, LogQueue
from rtagent.telemetry.telemetry import Telemetry

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

#: Errors that only an operator can help with.
REFUSALS = (ConfigError, IdentityError, NotDurable, SchemaMismatch, StoreDamaged, WriterFenced)

LOG = log.getLogger("rtagent.cmd.daemon")

#: Returns the configuration of a daemon that was started with this command line.
Configure = Callable[[cfg.ConfigOpts, Sequence[str]], Configuration]


def main(prog: str, argv: Sequence[str] | None, configure: Configure, program: StartProgram) -> int:
    """Run a daemon and return its exit code."""
    events = EventQueue()
    events.catch_signals()
    os.umask(os.umask(UMASK) | UMASK)
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), *QUIETER])
    # The global one, because oslo.messaging and oslo.log use it in places.
    conf = cfg.CONF
    configuration = configure(conf, sys.argv[1:] if argv is None else argv)
    try:
        settings = configuration.read()
    except ExceptionGroup as group:
        for error in group.exceptions:
            _refuse(prog, str(error))
        return EX_CONFIG
    try:
        log.setup(conf, load.PROJECT, __version__)
    except LOG_REFUSALS as error:
        _refuse(prog, f"[DEFAULT] {', '.join(log_options(conf))}: {error}")
        return EX_CONFIG
    return _run(prog, configuration, settings, events, program)


def _refuse(prog: str, why: str) -> None:
    """Print why the daemon does not start: there is no log yet. The text may quote any file."""
    print(printable(f"{prog}: {why}", MAX_LINE), file=sys.stderr)


def _serve(process: Process) -> int:
    """Serve until a signal asks to stop, and log the error that ended it, if one did."""
    code, ended_by = 0, ""
    try:
        process.run()
    except REFUSALS as error:
        code, ended_by = EX_CONFIG, error.message
    except Exception:  # logged here, because the interpreter would wait for the log without limit
        code = EX_SOFTWARE
        LOG.critical("Unhandled error", exc_info=True)
    if ended_by:  # here, or oslo.log would append the error to the line
        LOG.error(ended_by)
    return code


def _run(
    prog: str,
    configuration: Configuration,
    settings: Settings,
    events: EventQueue,
    program: StartProgram,
) -> int:
    """Serve until a signal asks to stop, and return the exit code."""
    clock = SystemClock()
    telemetry = Telemetry(clock)
    log_queue = LogQueue(telemetry.counted)
    log_queue.adopt()
    configuration.after_reload(log_queue.adopt)
    liveness = Liveness(clock)
    measure_threads(telemetry.metrics, liveness)
    report = StateReport(prog, configuration.conf, clock, telemetry, telemetry.checks)
    report.start()
    context = ProcessContext(
        configuration=configuration,
        settings=SettingsHolder(settings),
        telemetry=telemetry,
        clock=clock,
        events=events,
        notifier=Notifier(),
        liveness=liveness,
        report=report,
    )
    process = Process(context, program)
    code = _serve(process)
    if not log_queue.close() or process.parts.blocked:
        os._exit(code)
    return code
