"""StateReport: the report of the whole process that SIGUSR2 requests (oslo.reports' "Guru
Meditation").

oslo.reports would make it within the signal handler, that is, between any two instructions of the
main thread, which may hold a lock that the report needs. Here a thread of its own makes it.

Secrets: the passwords in a configuration, which no report may show.
"""

import _thread
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import FrameType
from urllib.parse import unquote

from oslo_config import cfg
from oslo_reports import opts

from rtagent.conf import placement
from rtagent.conf.libraries import listed
from rtagent.conf.unknown import NAMESPACES
from rtagent.model.health import Check
from rtagent.model.printable import printable, printable_lines
from rtagent.ports import Clock, Reporter
from rtagent.service.versions import versions

HIDDEN = "***"
#: User and password in a URL. A password may contain "@"; the last one ends it.
_USER = re.compile(r"(?<=://)[^\s/'\"]+@")
#: The passwords of a URL: those of several hosts, and one with characters that should be encoded.
_PASSWORDS = (re.compile(r"[/,][^\s/:@,]*:([^\s/@]*)@"), re.compile(r"://[^\s/:@]*:(\S*)@"))
#: The length from which a text is hidden wherever it occurs. A shorter one occurs by chance.
SHORTEST = 4


class Secrets:
    """The values of the secret options of a parsed configuration."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def masked(self, text: str) -> str:
        """Return a text without secret values, and without user and password in its URLs."""
        for value in sorted(set(self._values()), key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return _USER.sub(f"{HIDDEN}@", text)

    def _values(self) -> Iterator[str]:
        section, chosen = placement.chosen(self._conf)
        self._conf.register_opts(chosen, group=section)
        for group, options in [*listed(NAMESPACES), (section, chosen)]:
            for option in options:
                if option.secret:
                    yield from _parts(self._read(group, option.dest))

    def _read(self, group: str | None, name: str) -> str:
        try:
            section = self._conf[group] if group and group != "DEFAULT" else self._conf
            return str(section[name] or "")
        except (cfg.Error, ValueError, KeyError):  # not registered by this daemon, or unreadable
            return ""


def _parts(value: str) -> Iterator[str]:
    """Yield what must not be shown of a value: all of it, and the passwords of a URL."""
    passwords = [found for pattern in _PASSWORDS for found in pattern.findall(value)]
    for part in (value, *passwords, *map(unquote, passwords)):
        if len(part) >= SHORTEST:
            yield part


SIGNAL = signal.SIGUSR2
TITLE = "Guru Meditation"
#: Seconds between two looks at the watched file, if the option says 0.
SHORTEST_INTERVAL = 1
#: The most lines of a section that the program adds, and characters of a line.
MAX_LINES, MAX_LINE = 1000, 600

#: Returns the lines of a section.
Lines = Callable[[], Iterable[str]]


class StateReport:
    """The report, and when it is made. ``[oslo_reports]`` says when and where."""

    def __init__(
        self,
        program: str,
        conf: cfg.ConfigOpts,
        clock: Clock,
        reporter: Reporter,
        checks: Callable[[], Sequence[Check]],
    ) -> None:
        """:param program: its name. :param checks: the health of its parts."""
        self._program, self._conf, self._clock = program, conf, clock
        self._reporter = reporter.named(__name__)
        self._secrets = Secrets(conf)
        self._sections: list[tuple[str, Lines]] = [
            ("Package", lambda: [program, *versions()]),
            ("Health", lambda: map(_health, checks())),
        ]
        self._writing = threading.Lock()
        opts.set_defaults(conf)
        self._options = conf.oslo_reports

    def add(self, title: str, lines: Lines) -> None:
        """Add a section. :param lines: called by the thread of the report."""
        self._sections.append((title, lines))

    def start(self) -> None:
        """Make a report at each request from now on. Only the main thread may call it."""
        if watched := self._options.file_event_handler:
            run = partial(self._watch, watched, _changed_at(watched))
            threading.Thread(target=run, name="state-report", daemon=True).start()
        else:
            signal.signal(SIGNAL, self._signalled)

    def text(self) -> str:
        """Return the whole report, without secrets. Values of options are escaped, too."""
        # They load Jinja2. Hardly any process makes a report.
        from oslo_reports.generators.conf import ConfigReportGenerator
        from oslo_reports.generators.process import ProcessReportGenerator
        from oslo_reports.report import TextReport

        report = TextReport(TITLE)
        for title, lines in self._sections:
            report.add_section(title, partial(_section, lines))
        report.add_section("Threads", lambda: "\n".join(_threads()))
        report.add_section("Processes", ProcessReportGenerator())
        report.add_section("Configuration", ConfigReportGenerator(self._conf))
        return printable_lines(self._secrets.masked(report.run()))

    # -- requests ---------------------------------------------------------------------------------

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        # `threading` would wait for locks that the interrupted thread may hold.
        _thread.start_new_thread(self._write, ())

    def _watch(self, watched: str, seen: int | None) -> None:
        """:param seen: when the watched file was last changed."""
        interval = max(SHORTEST_INTERVAL, self._options.file_event_handler_interval)
        while True:
            time.sleep(interval)
            before, seen = seen, _changed_at(watched)
            if seen not in (None, before):
                self._write()

    def _write(self) -> None:
        """Write a report to the directory of the option, or to the standard error. Requests that
        come meanwhile are answered by this one.
        """
        if not self._writing.acquire(blocking=False):
            return
        try:
            text = self.text()
            if not self._options.log_dir:
                print(text, file=sys.stderr, flush=True)
                return
            file = self._file(self._clock.now())
            file.write_text(text, errors="backslashreplace")
            self._reporter.log("info", f"the state report is in {file}")
        except Exception as error:  # of any part; the process goes on
            self._reporter.log("error", f"the state report cannot be written: {error!r}")
        finally:
            self._writing.release()

    def _file(self, now: datetime) -> Path:
        name = f"{self._program}_gurumeditation_{now.strftime('%Y%m%d%H%M%S')}"
        return Path(self._options.log_dir) / name


def _section(lines: Lines) -> str:
    try:
        found = [printable(line, MAX_LINE) for line in lines()]
    except Exception as error:  # of this section; the others are made
        return f"cannot be shown: {error!r}\n"
    left = len(found) - MAX_LINES
    more = [f"({left} more)"] if left > 0 else []
    return "\n".join([*found[:MAX_LINES], *more, ""])


def _health(check: Check) -> str:
    why = f": {check.output}" if check.output else ""
    return f"{check.part}: {check.status} since {check.time:%Y-%m-%dT%H:%M:%SZ}{why}"


def _threads() -> Iterable[str]:
    """Yield the name and the stack of each thread."""
    frames = sys._current_frames()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None:  # otherwise it has ended meanwhile
            yield f"{thread.name} ({thread.native_id})"
            yield "".join(traceback.format_stack(frame))


def _changed_at(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None
