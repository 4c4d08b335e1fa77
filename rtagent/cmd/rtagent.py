"""rtagent: the operator's command line."""

from __future__ import annotations

import argparse
import inspect
import logging
import math
import os
import sys
from collections.abc import Sequence
from importlib.metadata import distribution
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from cliff.app import App
from cliff.command import Command
from cliff.commandmanager import CommandManager
from cliff.help import HelpCommand

import rtagent
from rtagent.cmd.exit_codes import Exit, exit_code, exit_code_help
from rtagent.errors import ConfigError
from rtagent.model.printable import printable

if TYPE_CHECKING:
    from rtagent.cmd.client import Client

#: The group of entry points that are commands.
GROUP = "rtagent.cli"

#: The environment variable that replaces --config-file.
CONFIG_FILE = "RTAGENT_CONFIG_FILE"

#: Seconds for which a command waits for the reply to an RPC call.
TIMEOUT = 30.0
#: The most of them, ten years.
MAX_TIMEOUT = 10 * 366 * 86400

#: The first words of commands that ask no agent over RPC, so that ``--host`` would do nothing.
LOCAL = (
    *("broker ", "config ", "db ", "doctor ", "host simulate ", "policy ", "schema ", "token "),
    "upgrade ",
)
#: The first words of commands with a ``--host`` of their own: the host that a server shall use, or
#: that of a key.
OWN_HOST = ("key", "server")
#: Characters of a line that is logged. Messages may quote arguments, files and names of any length.
MAX_LINE = 8000
#: Characters of a message about an argument.
MAX_QUOTED = 500


class Commands(CommandManager):
    """The commands by name: the entry points of this distribution, and of no other."""

    def load_commands(self, namespace: str) -> None:
        self.group_list.append(namespace)
        for point in distribution("rtagent").entry_points.select(group=namespace):
            self.commands[point.name.replace("_", " ")] = point

    def starting_with(self, words: Sequence[str]) -> dict[str, str]:
        """Return the commands whose first words these are, with the first lines of their help."""
        found = sorted(name for name in self.commands if name.split()[: len(words)] == [*words])
        return {name: _summary(self.commands[name].load()) for name in found}


class Strict(Command):
    """A command whose usage errors are one line."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = one_line_errors(super().get_parser(prog_name))
        self.add_arguments(parser)
        return parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command, after those of its formats."""

    def get_epilog(self) -> str:
        """Return nothing. cliff's reads the metadata of all distributions, to name a plugin."""
        return ""


class Help(Strict, HelpCommand):
    """Print the help of a command, or list the commands that begin with a word."""

    app: Shell

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        words = parsed_args.cmd
        commands = self.app.command_manager
        assert isinstance(commands, Commands)
        try:
            if words:
                commands.find_command(words)
        except ValueError:
            return self._list(words, commands.starting_with(words))
        return super().take_action(parsed_args)

    def _list(self, words: Sequence[str], found: dict[str, str]) -> int:
        if not found:
            self.app.LOG.error("no command begins with: %s", " ".join(words))
            return Exit.USAGE
        width = max(map(len, found))
        for name, summary in found.items():
            self.app.stdout.write(f"  {name:{width}}  {summary.rstrip('.')}\n")
        return Exit.OK


class Shell(App):
    """The application.

    :ivar client: the configuration, the reads and the calls of the command that is run.
    """

    NAME = "rtagent"
    LOG = logging.getLogger("rtagent")

    client: Client

    def __init__(self, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        super().__init__(
            description="Show and change what the resource agent of a hypervisor manages.",
            version=rtagent.__version__,
            command_manager=Commands(GROUP),
            stdout=stdout,
            stderr=stderr,
            deferred_help=True,  # or --help after a command would print the global help
        )
        self.command_manager.add_command("help", Help)
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
                "epilog": exit_code_help(),
                "formatter_class": argparse.RawDescriptionHelpFormatter,
                "allow_abbrev": False,
                "conflict_handler": "resolve",  # for --version
            },
        )
        _add_version(parser)
        _add_options(parser)
        return one_line_errors(parser)

    def configure_logging(self) -> None:
        super().configure_logging()
        console = logging.getLogger().handlers[-1]
        console.setFormatter(MessageFormatter())
        if self.options.verbose_level <= self.DEFAULT_VERBOSE_LEVEL:
            console.addFilter(logging.Filter(self.NAME))

    def initialize_app(self, argv: list[str]) -> None:
        if self.options.version:
            self._print_version()
            raise SystemExit(Exit.OK)
        from rtagent.cmd.client import Client  # it reads the configuration, with its libraries

        files = os.environ.get(CONFIG_FILE, "").split()
        self.options.config_file = self.options.config_file or files
        self.client = Client(self.options, self.LOG)

    def _print_version(self) -> None:
        """Print the version; with ``-v``, those of what the program runs on, too."""
        lines = [f"{self.NAME} {rtagent.__version__}"]
        if self.options.verbose_level > self.DEFAULT_VERBOSE_LEVEL:
            from rtagent.service.versions import versions

            lines = [*versions()]
        print(*lines, sep="\n", file=self.stdout)

    def get_fuzzy_matches(self, cmd: str) -> list[str]:
        """Return the commands that have the word, as ``node drain`` has ``drain``; if there are
        none, those that begin with a similar one."""
        named = sorted(name for name, _ in self.command_manager if cmd in name.split())
        return named or list(super().get_fuzzy_matches(cmd))

    def prepare_to_run_command(self, cmd: Command) -> None:
        """Refuse ``--host`` where the command would act on this machine nevertheless."""
        if f"{cmd.cmd_name} ".startswith(LOCAL):
            self.client.refuse_host("this command is for this machine only: leave it out")

    def run_subcommand(self, argv: list[str]) -> int:
        """Run a command. ``rtagent COMMAND ... --help`` arrives here as ``help COMMAND ...``."""
        if argv[0] == "help":
            argv = ["help", *takewhile(lambda word: not word.startswith("-"), argv[1:])]
        return super().run_subcommand(self._with_own_host(argv))

    def _with_own_host(self, argv: list[str]) -> list[str]:
        """Give ``--host`` to the command if it has an option of that name. The parser of the
        options before a command also finds those after it.
        """
        if self.options.host is None or argv[0] not in OWN_HOST:
            return argv
        try:
            _, _, rest = self.command_manager.find_command(argv)
        except ValueError:
            return argv  # an unknown command
        host, self.options.host = self.options.host, None
        words = len(argv) - len(rest)
        return [*argv[:words], f"--host={host}", *rest]

    def clean_up(self, cmd: Command, result: int, err: BaseException | None) -> None:
        self._failure = err
        self.client.close()

    def interact(self) -> NoReturn:
        """Print the help. There is no interactive mode."""
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
        return result if self._failure is None else exit_code(self._failure)


class MessageFormatter(logging.Formatter):
    """Begins each line with the program's name. An error group has a line for each error.

    A message quotes what callers and the agent have sent, so it is escaped.
    """

    def format(self, record: logging.LogRecord) -> str:
        error = record.msg
        lines = (
            [str(each) for each in error.exceptions]
            if isinstance(error, BaseExceptionGroup)
            else [record.getMessage()]
        )
        return "\n".join(f"rtagent: {printable(line, MAX_LINE)}" for line in lines)


def one_line_errors(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Make a parser report an error in one line, in which the arguments are escaped.

    argparse prints the usage first, which hides the error.
    """

    def error(message: str) -> NoReturn:
        help_ = f"{parser.prog} --help"
        parser.exit(Exit.USAGE, f"rtagent: {printable(message, MAX_QUOTED)} (see {help_})\n")

    parser.error = error  # type: ignore[method-assign]
    return parser


def _add_version(parser: argparse.ArgumentParser) -> None:
    """Replace cliff's option, which ends the program before the options after it are read."""
    parser.add_argument(
        "--version",
        action="store_true",
        help="Print the version; with -v, those of the libraries that it runs on, too.",
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    for option, metavar, what, default in (
        ("--config-file", "FILE", "A configuration file", f"${CONFIG_FILE}, then"),
        ("--config-dir", "DIR", "A directory of configuration files", ""),
    ):
        where = f"{default} the daemon's default locations".strip()
        parser.add_argument(
            option,
            action="append",
            default=[],
            metavar=metavar,
            help=f"{what} of the daemon; may be repeated. Default: {where}.",
        )
    parser.add_argument(
        "--socket",
        type=_address,
        metavar="ADDRESS",
        help="The address of the read API: a path, IP:PORT, or https://NAME:PORT with the token in"
        " $RTAGENT_TOKEN. Default: [api] address of the configuration.",
    )
    parser.add_argument(
        "--host",
        type=_host,
        metavar="HOST",
        help="Ask the agent of this service host, from any machine with the message broker's"
        " transport_url: reads and changes go over RPC. Default: the agent of this machine.",
    )
    parser.add_argument(
        "--offline",
        action="store_true",
        help="Read the database instead of the read API of the agent.",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"How long to wait for the reply to an RPC call. Default: {TIMEOUT:g}.",
    )


def _address(text: str) -> str:
    """Return an address of the read API."""
    from rtagent.api.address import parse_client

    try:
        parse_client(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error.kwargs['rule']}") from error
    return text


def _host(text: str) -> str:
    """Return the name of a service host: what the option of an agent may be."""
    from oslo_config.types import HostDomain

    try:
        found: str = HostDomain()(text)
    except ValueError as error:
        rule = "is not the name of a service host: it must be a host name or an address"
        raise argparse.ArgumentTypeError(f"{text!r} {rule}, as [DEFAULT] host") from error
    return found


def _seconds(text: str) -> float:
    """Return a number above 0 after which a time of day can be computed."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    if number > MAX_TIMEOUT:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {MAX_TIMEOUT} seconds")
    return number


def _summary(command: type[Command]) -> str:
    return (inspect.getdoc(command) or "").partition("\n")[0].rstrip(".")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return Shell().run(list(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
