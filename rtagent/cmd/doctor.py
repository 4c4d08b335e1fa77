"""rtagent doctor: run every check of this host, and say what to do."""

from __future__ import annotations

import argparse
import threading

from rtagent.cmd.base import List, Rows
from rtagent.cmd.doctor_checks import CHECKS, FAIL, Check, Doctor, Finding
from rtagent.cmd.exit_codes import Exit
from rtagent.errors import RtAgentError

#: Seconds that one check may take.
PATIENCE = 15.0
COLUMNS = ("check", "result", "details", "remedy")


class DoctorRun(List):
    """Check this host, and say what to do: one row for each check.

    The checks read only. Each one ends in bounded time, and they work while the daemon is down. The
    exit code is 0 if all pass or only warn, and 1 if one fails.
    """

    nouns = "checks"

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._code = Exit.OK
        return super().run(parsed_args) or self._code

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        doctor = Doctor(self.app.client)
        rows = []
        for title, check in CHECKS:
            found = _bounded(check, doctor)
            if found.result == FAIL:
                self._code = Exit.ERROR
            rows.append((title, found.result, found.details, found.remedy))
        return COLUMNS, rows


def _bounded(check: Check, doctor: Doctor) -> Finding:
    """Return what a check finds. One that hangs is given up, and its thread is left behind."""
    found: list[Finding] = []

    def make() -> None:
        try:
            found.append(check(doctor))
        except ExceptionGroup as group:
            message = "; ".join(map(str, group.exceptions))
            found.append(Finding(FAIL, message, "rtagent config check"))
        except RtAgentError as error:
            found.append(Finding(FAIL, error.message, "remove the cause, or see the runbook"))
        except OSError as error:
            found.append(Finding(FAIL, str(error), "remove the cause, or see the runbook"))

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if found:
        return found[0]
    if thread.is_alive():
        return Finding(FAIL, f"no answer within {PATIENCE:g} s", "find out what hangs")
    return Finding(FAIL, "the check itself failed", "report this as a defect")
