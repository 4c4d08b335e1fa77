"""rtagent numa: who has what of the host's CPUs, cells and pages."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from rtagent.cmd.listing import Show
from rtagent.cmd.numa_map import draw
from rtagent.errors import NodeNotFound

COLUMNS = ("uuid", "hypervisor_hostname", "cells")


class NumaShow(Show):
    """Show a map of the host's CPUs and pages: every CPU with its owner, siblings side by side

    "claimed" CPUs bear the name of their instance; "kept" ones are idle beside them; "foreign" ones
    are used by a domain without a claim; "!" marks one on which another domain runs, too. In any
    other format than the table: the document.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "node", nargs="?", help="Its uuid or hypervisor_hostname. Default: the one there is."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        host = self._host(parsed_args.node)
        return COLUMNS, tuple(host[name] for name in COLUMNS)

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Sequence[Any],
    ) -> int:
        if parsed_args.formatter != "table" or parsed_args.columns:
            return super().produce_output(parsed_args, column_names, data)
        console = Console(file=self.app.stdout, highlight=False)
        draw(dict(zip(column_names, data, strict=True)), console)
        return 0

    def _host(self, name: str | None) -> Mapping[str, Any]:
        if name is not None:
            found: Mapping[str, Any] = self.world.read("numa", name)["numa"]
            return found
        hosts = self.world.read("numa")["numa"]
        if len(hosts) != 1:
            served = ", ".join(host["hypervisor_hostname"] for host in hosts) or "none"
            raise NodeNotFound(node="(unnamed)", served=served)
        only: Mapping[str, Any] = hosts[0]
        return only
