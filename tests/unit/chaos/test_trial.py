"""Trials: the exit code of a run, and what its summary names."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos.checker.violation import Violation
from tests.chaos.trial import FAILED, NO_VIOLATION, VIOLATED, Trial

FAILURE = "failover of mariadb: begin: ServerFailed('no space')"
VIOLATION = Violation("P1", "a claim is missing", (1, 2))


def trial(**fields) -> Trial:
    nothing = dict.fromkeys(("violations", "stuck", "failures", "impossible"), ())
    return Trial(**{**nothing, "calls": 9, "quiets": 1, "faults": Counter(), **fields})


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, NO_VIOLATION),
        ({"impossible": ("disk-full",)}, NO_VIOLATION),
        ({"failures": (FAILURE,)}, FAILED),
        ({"stuck": ("host-1 is not audited",)}, VIOLATED),
        ({"violations": (VIOLATION,), "failures": (FAILURE,)}, VIOLATED),
    ],
    ids=["good", "impossible", "not-injected", "stuck", "violated"],
)
def test_the_exit_code(fields, code):
    assert trial(**fields).exit_code == code


def test_the_summary_names_what_was_not_injected():
    text = str(trial(failures=(FAILURE,), impossible=("disk-full", "failover")))
    assert f"the run failed, not injected or ended: {FAILURE}" in text
    assert "not possible here: disk-full, failover" in text
    assert "not possible" not in str(trial())
