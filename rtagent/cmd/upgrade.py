"""rtagent upgrade: whether this release can start on this host, before the daemon is started."""

import argparse
import contextlib
import io
import textwrap
import traceback
from collections.abc import Sequence
from typing import Any

from oslo_upgradecheck.upgradecheck import UPGRADE_CHECK_MSG_MAP, Code, Result, UpgradeCommands

from rtagent.cmd.base import List, Rows
from rtagent.cmd.cells import safe
from rtagent.cmd.checks import FAIL, PASS, WARN, Checks, made

#: The exit code of an error in the check itself, as that of oslo.upgradecheck.
UNEXPECTED_ERROR = 255
#: Characters of a line of details in the table, as in oslo.upgradecheck.
WIDTH = 60

COLUMNS = ("check", "result", "details")
CHECKS = (
    ("Configuration", Checks.configuration),
    ("Options", Checks.options),
    ("Database schema", Checks.database),
    ("Hypervisor", Checks.hypervisor),
    ("State directory and node identity", Checks.identity),
    ("Rows of the node", Checks.rows),
    ("Placement", Checks.placement),
)
_CODES = {PASS: Code.SUCCESS, WARN: Code.WARNING, FAIL: Code.FAILURE}


class _PlainResults(UpgradeCommands):
    """Prints the results as oslo.upgradecheck does."""

    def __init__(self, results: Sequence[tuple[str, Result]]) -> None:
        self._upgrade_checks = tuple(
            (title, (_PlainResults._made, {"result": result})) for title, result in results
        )

    def _made(self, result: Result) -> Result:
        return result

    def _get_details(self, upgrade_check_result: Result) -> str | None:
        """Wrap the details of the table, with a paragraph for each mistake."""
        lines = (upgrade_check_result.details or "").splitlines()
        wrapped = (textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines)
        return "\n".join(wrapped) or None


class UpgradeCheck(List):
    """Check whether this release can start on this host.

    Run it after the installation and `db sync`, before the daemon is started. It changes nothing.
    The exit code is that of the worst result: 0 success, 1 warning, 2 failure; 255 means that the
    check itself failed.
    """

    nouns = "checks"

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            super().run(parsed_args)
        except Exception:
            for line in ("the upgrade check failed:", *traceback.format_exc().splitlines()):
                self.app.LOG.error("%s", line)
            return UNEXPECTED_ERROR
        return self._code

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        checks = Checks(self.app.client)
        results = []
        for title, check in CHECKS:
            finding = made(check, checks)
            results.append((title, Result(_CODES[finding.result], finding.details or None)))
        with contextlib.redirect_stdout(io.StringIO()) as table:  # oslo.upgradecheck prints it
            self._code = _PlainResults(results).check()
        self._table = table.getvalue()
        return COLUMNS, [
            (title, str(UPGRADE_CHECK_MSG_MAP[result.code]), result.details or "")
            for title, result in results
        ]

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        if parsed_args.formatter != "table" or parsed_args.columns:
            return super().produce_output(parsed_args, column_names, data)
        self.app.stdout.write(safe(self._table, "text"))
        return 0
