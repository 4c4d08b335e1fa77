"""What a demonstration prints: chapters, sentences, and commands with what they print."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.rule import Rule

from tests.servers.forked import run_rtagent

PROGRAMS = Path(sys.executable).parent


class UnexpectedExit(Exception):
    """A command exited with another code than the demonstration expects."""


class Screen:
    """Runs commands and prints them with their output.

    :ivar pages: the address of the first page of each host or service, by its name.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.pages: dict[str, str] = {}

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which `rtagent` reaches what is demonstrated."""
        raise NotImplementedError

    def chapter(self, title: str) -> None:
        self.console.print()
        self.console.print(Rule(title, align="left"))

    def say(self, sentence: str) -> None:
        self.console.print(sentence, style="italic", highlight=False)

    def run(
        self,
        command: str,
        expect: int = 0,
        shown: Callable[[str], RenderableType] | None = None,
    ) -> str:
        """Run `rtagent COMMAND`, print its output, and return it.

        :param shown: converts the output for printing; None: print it as it is.
        :raises UnexpectedExit: the exit code is not `expect`.
        """
        return self._run(command, {}, expect, shown)

    def _run(
        self,
        command: str,
        variables: Mapping[str, str],
        expect: int = 0,
        shown: Callable[[str], RenderableType] | None = None,
    ) -> str:
        self.console.print(f"$ rtagent {command}", style="bold", highlight=False, soft_wrap=True)
        done = self._call(shlex.split(command), variables, merged=shown is None)
        if shown is not None and done.returncode == expect:
            self.console.print(shown(done.stdout))
        else:
            for line in (done.stdout + (done.stderr or "")).splitlines():
                self.console.print(line, markup=False, highlight=False, soft_wrap=True)
        if done.returncode != expect:
            raise UnexpectedExit(f"rtagent {command} exited with {done.returncode}, not {expect}")
        return done.stdout

    def ask(self, command: str) -> Any:
        """Return the answer of a read command without printing it."""
        return json.loads(self._call([*shlex.split(command), "-f", "json"]).stdout)

    def _call(
        self,
        arguments: Sequence[str],
        variables: Mapping[str, str] = {},
        merged: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run `rtagent`. :param merged: its messages are among its output, as on a terminal."""
        environment = {**os.environ, **self.environment(), **variables, "COLUMNS": "110"}
        return run_rtagent(arguments, environment, Path.cwd(), merged=merged)
