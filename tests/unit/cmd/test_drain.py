"""The arguments of ``rtagent node drain``, and its sentence."""

import argparse
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rtagent.cmd.drain import deadline, sentence
from tests.support.hosts import NOON


def test_deadline_is_a_time_with_a_zone():
    at = datetime(2030, 1, 31, 16, 0, 30, tzinfo=UTC)
    assert deadline("2030-01-31T16:00:30Z") == deadline("2030-01-31T18:00:30+02:00") == at


@pytest.mark.parametrize(("text", "hours"), [("90m", 1.5), ("2h", 2), ("1d", 24), ("3600s", 1)])
def test_deadline_is_a_time_from_now(text: str, hours: float):
    before = datetime.now(UTC)
    assert timedelta() <= deadline(text) + timedelta(seconds=1) - before - timedelta(hours=hours)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2030-01-31",
        "2030-01-31T18:00",
        "2030-02-30T18:00Z",
        "-1h",
        "999999d",
        "9999-12-31T23:59-23:00",
        "\N{ARABIC-INDIC DIGIT TWO}h",
    ],
)
def test_other_deadlines_are_refused_with_an_example(text: str):
    with pytest.raises(argparse.ArgumentTypeError, match="2030-01-31T18:00Z"):
        deadline(text)


def test_sentence_says_what_remains_and_that_the_deadline_has_passed():
    times = {"since": "2026-01-02T11:00:00Z", "deadline": "2026-01-02T12:00:00Z"}
    drain: dict[str, Any] = {"reason": "new disks", **times}
    found: dict[str, Any] = {"node": "cn1", "drain": drain, "claims": [{}, {}], "orphans": [{}]}
    assert sentence(found, NOON + timedelta(seconds=1)) == (
        "cn1 is being drained since 2026-01-02T11:00:00Z, until 2026-01-02T12:00:00Z, which has"
        " passed: new disks; 2 claims and 1 domain without a claim remain"
    )
    assert sentence({**found, "drain": None}, NOON) == "cn1 is not being drained"
