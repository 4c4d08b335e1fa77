"""rtagent: the operator's command line."""

from __future__ import annotations

import argparse
import logging
import math
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any, NoReturn, TextIO

from cliff.app import App
from cliff.command import Command
from cliff.commandmanager import CommandManager

import rtagent
from rtagent.api.address import parse
from rtagent.cmd.exits import Exit, code, described
from rtagent.cmd.world import CONFIG_FILE, World
from rtagent.errors import ConfigError

GROUP = "rtagent.cli"

#: Seconds.
TIMEOUT = 30.0


def address(text: str) -> str:
    """An address of the read API's kind."""
    try:
        parse(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error.kwargs['rule']}") from error
    return text


def seconds(text: str) -> float:
    """More than none, and not for ever."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return number


class Sentences(logging.Formatter):
    """Every line begins with the program's name; an error group has a line for each error."""

    def format(self, record: logging.LogRecord) -> str:
        told = record.msg
        lines = (
            [str(error) for error in told.exceptions]
            if isinstance(told, BaseExceptionGroup)
            else record.getMessage().splitlines()
        )
        return "\n".join(f"rtagent: {line}" for line in lines)


class Commands(CommandManager):
    """Cliff's, but that a command is imported when it is run and not before."""

    def load_commands(self, namespace: str) -> None:
        self.group_list.append(namespace)
        for point in entry_points(group=namespace):
            self.commands[point.name.replace("_", " ")] = point


class Shell(App):
    """The application.

    :ivar world: where commands read and write: the agent, the database, the configuration.
    """

    NAME = "rtagent"
    LOG = logging.getLogger("rtagent")

    world: World

    def __init__(self, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        super().__init__(
            description="Ask and tell the resource agent of this hypervisor.",
            version=rtagent.__version__,
            command_manager=Commands(GROUP),
            stdout=stdout,
            stderr=stderr,
        )
        self._failure: BaseException | None = None

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        parser = super().build_option_parser(
            description,
            version,
            {
                "prog": self.NAME,
                "epilog": described(),
                "formatter_class": argparse.RawDescriptionHelpFormatter,
                "allow_abbrev": False,
            },
        )
        for option, what, default in (
            ("--config-file", "FILE", f"${CONFIG_FILE}, or as oslo.config finds it"),
            ("--config-dir", "DIR", "as oslo.config finds it"),
        ):
            parser.add_argument(
                option,
                action="append",
                default=[],
                metavar=what,
                help=f"The daemon's own; may be repeated. Default: {default}.",
            )
        parser.add_argument(
            "--socket",
            type=address,
            metavar="ADDRESS",
            help="The read API's. Default: [api] address of the configuration.",
        )
        parser.add_argument(
            "--offline",
            action="store_true",
            help="Read the database instead of asking the agent.",
        )
        parser.add_argument(
            "--timeout",
            type=seconds,
            default=TIMEOUT,
            metavar="SECONDS",
            help=f"How long a change waits for its answer. Default: {TIMEOUT:g}.",
        )
        return parser

    def configure_logging(self) -> None:
        super().configure_logging()
        console = logging.getLogger().handlers[-1]
        console.setFormatter(Sentences())
        if self.options.verbose_level <= self.DEFAULT_VERBOSE_LEVEL:
            console.addFilter(logging.Filter(self.NAME))

    def initialize_app(self, argv: list[str]) -> None:
        self.world = World(self.options, self.LOG)

    def clean_up(self, cmd: Command, result: int, err: BaseException | None) -> None:
        self._failure = err
        self.world.close()

    def interact(self) -> NoReturn:
        """No interactive mode: without a command there is only help."""
        self.parser.print_help(self.stderr)
        raise SystemExit(Exit.USAGE)

    def run(self, argv: list[str]) -> int:
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        try:
            result = super().run(argv)
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
        return result if self._failure is None else code(self._failure)


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return Shell().run(list(sys.argv[1:] if argv is None else argv))
