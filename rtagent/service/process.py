"""Process: a daemon from start to stop, whatever it serves, and its gauges."""

import gc
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from oslo_log import log

import rtagent
from rtagent.api.server import ReadAPI
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.errors import ConfigError, RtAgentError
from rtagent.model.base import Value
from rtagent.ports import Clock, Reporter
from rtagent.rpc.serving import InFlight
from rtagent.service import main_thread
from rtagent.service.configuration import Configuration
from rtagent.service.loop import Loop, Turn
from rtagent.service.state_report import StateReport
from rtagent.service.systemd import Liveness, Notifier, Watchdog
from rtagent.telemetry.metrics import Metrics
from rtagent.telemetry.telemetry import Telemetry


def measure_process(
    metrics: Metrics, service: str, in_flight: InFlight, sql_errors: Callable[[], Mapping[str, int]]
) -> None:
    """Register them. :param sql_errors: failed transactions by kind."""
    build = {
        "service": service,
        "version": rtagent.__version__,
        "python": platform.python_version(),
    }
    metrics.info("build", "The running software", build)
    metrics.gauge("calls_in_flight", "RPC calls that are being served", lambda: len(in_flight))
    metrics.gauge("threads", "Threads of the process", threading.active_count)
    metrics.numbers("sql_errors", "kind", "Failed transactions of the database", sql_errors)


def measure_threads(metrics: Metrics, liveness: Liveness) -> None:
    """Register the progress of the threads that the watchdog checks."""
    metrics.gauges(
        "thread_late_seconds",
        "thread",
        "Seconds since the last progress that was due",
        liveness.overdue,
    )


#: The time-out in seconds for a thread to end.
LOOP_PATIENCE = 5.0
#: Seconds between two checks of the threads.
TICK = 1.0
#: Seconds after which a thread without progress counts as hung, if systemd does not set its own
#: limit.
HUNG = 300.0
#: After how many new objects the garbage collector looks at them. Python's default, 700, makes it
#: look at the state of a large host again and again: a fifth of the CPU time of an idle audit.
YOUNG = 10_000

LOG = log.getLogger(__name__)


class ProcessContext(Value, frozen=True, kw_only=True):
    """What a daemon's program gets from its process.

    :ivar settings: those in force. :ivar events: catches the signals already; the program adds
        `READY`, and the errors that must end the process.
    :ivar report: the program adds its sections.
    :ivar liveness: begins to watch the program's vital turns when the program has started.
    """

    configuration: Configuration
    settings: SettingsHolder
    telemetry: Telemetry
    clock: Clock
    events: main_thread.EventQueue
    notifier: Notifier
    liveness: Liveness
    report: StateReport


class RunningParts:
    """The running parts of a daemon, which are stopped in the reverse order of their start.

    :ivar blocked: the names of the parts that had not ended when the process had to end.
    """

    def __init__(self, reporter: Reporter) -> None:
        self.blocked: list[str] = []
        self._reporter, self._stack = reporter, ExitStack()

    def callback(self, stop: Callable[[], object]) -> None:
        """Call `stop` at the end."""
        self._stack.callback(stop)

    def add(self, name: str, stop: Callable[[], bool]) -> None:
        """Stop a part at the end. :param stop: returns False if it does not end in time."""
        self._stack.callback(self._stop, name, stop)

    def start_loop(self, loop: Loop) -> None:
        """Start a thread."""
        loop.start()
        self.add(loop.name, partial(loop.stop, LOOP_PATIENCE))

    def start_read_api(self, api: ReadAPI, group: str, option: str) -> None:
        """Serve the read API. :raises ConfigError: the address of that option cannot be used."""
        named = {"group": group, "option": option}
        try:
            api.start()
        except ConfigError as error:
            raise ConfigError(**{**error.kwargs, **named}) from error
        except OSError as exc:
            rule, value = f"cannot be listened on: {exc.strerror}", str(api.address)
            raise ConfigError(value=value, rule=rule, **named) from exc
        self.callback(api.stop)

    def stop(self) -> None:
        """Stop every part."""
        self._stack.close()

    def _stop(self, name: str, stop: Callable[[], bool]) -> None:
        if not stop():
            self.blocked.append(name)
            self._reporter.log("warning", f"{name} did not end in time and is left running")


class Program(Protocol):
    """What a daemon serves. The main thread makes these calls."""

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns whose progress is reported."""

    @property
    def vital_turns(self) -> Sequence[Turn]:
        """The turns whose progress the watchdog checks."""

    def ready(self) -> None:
        """Do what comes between the event `READY` and READY=1."""

    def status(self) -> str:
        """Return the status in one sentence, for ``systemctl status``."""

    def check(self, settings: Settings) -> None:
        """Check whether a reload can apply these settings.

        :raises ConfigError: it cannot. :raises ExceptionGroup: of `ConfigError`.
        """

    def reload(self) -> None:
        """React to new settings, which are in force already."""


#: Starts everything. Raises `Stopped` if a signal requested a stop, and `RtAgentError` if an
#: operator has to correct the cause.
StartProgram = Callable[[ProcessContext, RunningParts], Program]


class Process:
    """:ivar parts: what the program has started."""

    def __init__(self, context: ProcessContext, start: StartProgram) -> None:
        self._context, self._start = context, start
        self._reporter = context.telemetry.named(__name__)
        self._notifier = context.notifier
        self.parts = RunningParts(self._reporter)

    def run(self) -> None:
        """Serve until a signal requests a stop.

        :raises RtAgentError: an operator has to correct the cause.
        """
        try:
            gc.set_threshold(YOUNG)
            self._serve(self._start(self._context, self.parts))
        except main_thread.Stopped:
            pass
        except RtAgentError as error:
            self._notifier.status(f"stopping: {error.message}")
            raise
        finally:
            self._notifier.stopping()
            self.parts.stop()
        self._reporter.log("info", "stopped")

    def _serve(self, program: Program) -> None:
        limit, liveness = self._notifier.watchdog_seconds or HUNG, self._context.liveness
        liveness.watch(program.vital_turns, limit, program.turns)
        watchdog = Watchdog(liveness, self._notifier, self._context.telemetry)
        while (event := self._context.events.get(TICK)) != main_thread.STOP:
            if isinstance(event, RtAgentError):
                raise event
            if event == main_thread.READY:
                program.ready()
                self._notifier.ready()
                # Leave out what was loaded. It is hardly ever freed, and has no cycles.
                gc.freeze()
            if event == main_thread.DESCRIBE:
                main_thread.log_state(
                    self._reporter, program.status(), self._context.telemetry.checks()
                )
            if event == main_thread.RELOAD:
                self._reload(program)
            watchdog.check()
            self._notifier.status(program.status())
        self._reporter.log("info", "stopping")
        self._notifier.status("stopping: finishing the calls in flight")

    def _reload(self, program: Program) -> None:
        """Apply the whole new configuration, or nothing of it."""
        configuration = self._context.configuration
        self._notifier.reloading()
        mistakes: Sequence[BaseException] = ()
        try:
            candidate = configuration.candidate()
            program.check(candidate)
            self._context.settings.current = configuration.reload(candidate)
        except* ConfigError as group:
            mistakes = group.exceptions
        else:
            program.reload()
            self._reporter.log("info", "the configuration was reloaded")
        for error in mistakes:  # logged here, because oslo.log would add the group to the line
            LOG.error("the old configuration stays in force: %s", error)
        self._notifier.reloaded()
