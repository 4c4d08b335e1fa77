"""Bad input to every command: one line, a documented exit code, no traceback, nothing raw.

The tables are made from the entry points and from the parsers of the commands, so that a new
command is covered. An agent, a scheduler and a read API answer in this process.
"""

import argparse
import contextlib
import io
import logging
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from rtagent.cmd.exit_codes import Exit
from rtagent.cmd.rtagent import GROUP, Shell
from rtagent.rpc import AGENT, SCHEDULER
from tests.functional.cli.answering import answering
from tests.functional.cli.shell import Outcome, run
from tests.support.api_states import sources
from tests.support.hosts import uid
from tests.support.rpc import Agent
from tests.support.scheduler_rpc import SchedulerRpc

POINTS = {point.name.replace("_", " "): point for point in entry_points(group=GROUP)}
#: Values by what is wrong with them. A directory and a missing file are added by the fixture.
HOSTILE = {
    "empty": "",
    "control characters": "\x1b[31mred\x07\x00",
    "another direction": "a\u202eb\u2066",
    "100 kB": "x" * 100_000,
    "a negative number": "-7",
    "a huge number": "9" * 40,
    "lines": "a\nb",
    "not UTF-8": "a\udcffb",
    "half a document": "{",
    "a missing file": "/nonexistent/file",
    "a directory": "/",
}
#: Commands that wait for something else than an answer.
WAITING = {"events"}
#: The longest line of an error.
LONGEST = 9000


def parser(name: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = POINTS[name].load()(Shell(), None, name).get_parser(name)
    return made


def arguments(name: str) -> tuple[list[argparse.Action], list[argparse.Action]]:
    """The positional arguments and the options with a value, without those of formats."""
    formats = {
        action.dest
        for group in parser(name)._action_groups
        if any(word in (group.title or "") for word in ("formatter", "CSV", "table"))
        for action in group._group_actions
    }
    actions = [each for each in parser(name)._actions if each.dest not in formats | {"help"}]
    positional = [each for each in actions if not each.option_strings]
    return positional, [each for each in actions if each.option_strings and each.nargs != 0]


def lines(name: str, long: bool) -> Iterator[list[str]]:
    """Command lines: a value in place of everything that is required, and of one option.

    :param long: more values, and all options.
    """
    positional, options = arguments(name)
    required = [each for each in options if each.required]
    values = list(HOSTILE.values())
    start = sum(map(ord, name))
    for offset in range(0, len(values), 1 if long else 4) if positional or required else ():
        value = values[(start + offset) % len(values)]
        chosen = [f"{each.option_strings[-1]}={value}" for each in required]
        yield [*name.split(), *chosen, "--", *(value for _ in positional)]
    for number, option in enumerate(options[: 5 if not long else None]):
        value = values[(start + number) % len(values)]
        others = [f"{o.option_strings[-1]}=x" for o in required if o is not option]
        given = f"{option.option_strings[-1]}={value}"
        yield [*name.split(), given, *others, "--", *(uid(9) for _ in positional)]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The configuration of an agent and a scheduler that answer in this process."""
    agent = Agent()
    endpoints = {AGENT: agent.endpoint, SCHEDULER: SchedulerRpc().endpoint}
    directory = tmp_path_factory.mktemp("bad-input")
    with answering(directory, agent, endpoints, {"api": sources()}) as file:
        yield file


@pytest.fixture(autouse=True)
def printable_records() -> Iterator[None]:
    """Log records that can be sent to the process that collects reports: some values are not
    UTF-8.
    """

    def printable(record: logging.LogRecord) -> bool:
        record.msg, record.args = ascii(record.getMessage()), ()
        return True

    handlers = logging.getLogger().handlers
    for each in handlers:
        each.addFilter(printable)
    yield
    for each in handlers:
        each.removeFilter(printable)


def execute(*argv: str) -> Outcome:
    """Run a command. argparse writes to the streams of the process, and exits."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            outcome = run(*argv)
        except SystemExit as exit_:
            assert isinstance(exit_.code, int)
            outcome = Outcome(exit_.code, "", "")
    return Outcome(outcome.code, outcome.out + out.getvalue(), outcome.err + err.getvalue())


def check(argv: list[str], outcome: Outcome) -> None:
    shown = " ".join(argv)[:200]
    assert outcome.code in [*Exit], (shown, outcome)
    for text in (outcome.out, outcome.err):
        assert "Traceback" not in text, (shown, text)
        raw = [char for char in text if not char.isprintable() and char not in "\n\t\r"]
        assert raw == [], (shown, raw)
    said = outcome.err.splitlines()
    assert all(len(line) <= LONGEST for line in said), shown
    if outcome.code:
        errors = [line for line in said if line.startswith("rtagent: ")]
        assert errors == said and errors, (shown, outcome.err)
        assert len(said) == 1 or outcome.code in (Exit.OK, Exit.ERROR), (shown, outcome.err)


@pytest.mark.parametrize("name", sorted(POINTS.keys() - WAITING))
def test_hostile_arguments(
    name: str, config: Path, long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a command may write a file of any name
    for argv in lines(name, long):
        check(argv, execute("--config-file", str(config), "--timeout", "3", *argv))


@pytest.mark.parametrize("name", sorted(POINTS))
def test_missing_and_unknown_arguments_are_usage_errors(name: str, config: Path) -> None:
    positional, options = arguments(name)
    needed = any(each.nargs not in ("?", "*") for each in positional)
    argv = ["--config-file", str(config), *name.split()]
    unknown = [*argv, "--no-such-option"]
    for wrong in [unknown, argv] if needed or any(o.required for o in options) else [unknown]:
        outcome = execute(*wrong)
        assert outcome.code == Exit.USAGE, (wrong, outcome)
        assert outcome.err.count("\n") == 1, (wrong, outcome.err)
