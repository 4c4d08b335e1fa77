"""The base classes of commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from cliff.command import Command
from cliff.formatters.base import SingleFormatter
from cliff.lister import Lister
from cliff.show import ShowOne
from stevedore import ExtensionManager

from rtagent.cmd.formats import csv_one
from rtagent.cmd.rtagent import Shell
from rtagent.cmd.world import World


class Act(Command):
    """A command that prints nothing but what it did."""

    app: Shell

    @property
    def world(self) -> World:
        return self.app.world


class Show(ShowOne):
    """A command that prints one thing, in every format in which a list is."""

    app: Shell

    def _load_formatter_plugins(self) -> ExtensionManager[SingleFormatter]:
        formats = super()._load_formatter_plugins()
        formats.extensions.append(csv_one())
        return formats

    @property
    def world(self) -> World:
        return self.app.world


class List(Lister):
    """A command that prints a list, or says that it is empty.

    :cvar nouns: what the list is of.
    """

    app: Shell
    nouns: ClassVar[str]

    @property
    def world(self) -> World:
        return self.app.world

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        rows = list(data)
        if not rows:
            self.app.LOG.info("no %s", self.nouns)
            if parsed_args.formatter == "table":
                return 0
        return super().produce_output(parsed_args, column_names, rows)
