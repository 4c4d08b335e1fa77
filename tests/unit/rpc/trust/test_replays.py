"""Signed calls that come again, and the times of those that are forgotten."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg
from oslo_context.context import RequestContext

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend
from rtagent.ports import NullReporter
from rtagent.rpc.context import CallContext
from rtagent.rpc.errors import SignatureInvalid
from rtagent.rpc.methods import TABLES
from rtagent.rpc.transport import get_transport
from rtagent.rpc.trust.authentication import (
    EXPIRED,
    FORGOTTEN,
    GAP,
    MOST,
    SERVED,
    Authentication,
    Replays,
    Spans,
    served_once,
)
from rtagent.rpc.trust.credentials import Credentials
from rtagent.rpc.trust.token import CallClaims
from tests.support.hosts import ManualClock
from tests.support.trust import KeyFiles, signed_context

# isort: split


METHOD, OTHER = "delete_aggregate", "update_aggregates"
READ = "get_aggregates"
DOCUMENT = {"aggregate": "fast"}


def said(issued_at: int, method: str = METHOD, attempt: str = "a") -> CallClaims:
    """:param issued_at: milliseconds."""
    iat = issued_at / 1000
    return CallClaims(aud="scheduler", method=method, digest="d", nonce="", iat=iat, jti=attempt)


def refusal(known: Replays, call: CallClaims, now: float, key: str = "ops") -> str:
    """Return why a call is refused at a time in seconds; its signature is valid for a minute."""
    return known.why_refused(key, call, 60, lambda: now)


@pytest.mark.parametrize("method", [METHOD, READ, "select_destinations"])
def test_a_signed_call_is_served_once(tmp_path: Path, method: str):
    files, clock = KeyFiles(tmp_path), ManualClock(start=datetime.now(UTC))
    key, options = files.add("ops", "operator"), files.settings()
    methods = TABLES["scheduler"].methods.values()
    served = Authentication("scheduler", "s1", options, clock, NullReporter(), methods)

    def signed() -> CallContext:
        return signed_context(key, clock.now(), DOCUMENT, aud="scheduler.s1", method=method)

    first = signed()
    with pytest.raises(SignatureInvalid, match="not that of the key"):
        served(first, method, {"aggregate": "slow"})  # what is forged is not remembered
    assert served(first, method, DOCUMENT).proved
    first.reply_queue = "reply_of_another"
    for _ in range(2):
        with pytest.raises(SignatureInvalid, match="s1 has served this call already: sign each"):
            served(first, method, DOCUMENT)
    assert served(signed(), method, DOCUMENT).proved


def test_calls_are_remembered_while_their_signatures_are_valid():
    known = Replays({METHOD})
    assert not refusal(known, said(1000), 1)
    assert not refusal(known, said(2000), 2)
    assert refusal(known, said(1000), 61)
    assert not refusal(known, said(60_000), 61.5)
    assert len(known) == 2
    assert not refusal(known, said(0, OTHER), 61.5)
    assert len(known) == 2


def test_the_number_of_remembered_calls_is_bounded_and_no_replay_is_served():
    known = Replays({METHOD}, most=100)
    assert not refusal(known, said(500), 1, "other")
    for number in range(1000):
        assert not refusal(known, said(1000 + number), 2)
        assert len(known) <= 100
    assert refusal(known, said(500), 2, "other") == SERVED  # no flood of ops helps
    assert refusal(known, said(1999), 2) == SERVED
    assert refusal(known, said(1000), 2) == FORGOTTEN
    assert refusal(known, said(1000, attempt="b"), 2) == FORGOTTEN
    assert not refusal(known, said(400), 2, "other")
    assert not refusal(known, said(2000), 2)
    later = 100  # then all of them are too old to be replayed
    assert not refusal(known, said(later * 1000), later)
    assert not refusal(known, said(later * 1000), later, "other")
    assert len(known) == 2


def test_a_copy_that_is_verified_until_its_time_has_passed_is_refused():
    known = Replays({METHOD})
    assert not refusal(known, said(1000), 1)
    assert refusal(known, said(1000), 61) == SERVED
    assert refusal(known, said(1000), 61.0004) == EXPIRED  # it was valid when it came
    assert len(known) == 0


def test_the_first_calls_of_keys_are_remembered_while_another_key_floods():
    known, now = Replays({METHOD}, most=100), 1000
    for number in range(150):
        assert not refusal(known, said(now * 1000 + number), now, "flood")
    for number in range(150):
        call, key = said(now * 1000), f"key-{number}"
        assert not refusal(known, call, now, key)
        assert refusal(known, call, now, key) in (SERVED, FORGOTTEN)
        assert len(known) <= 100


def test_no_forgotten_call_becomes_valid_when_the_clock_is_set_back():
    known, day = Replays({METHOD}), 86_400
    for now in (day, day + 30, day + 100, day + 7200):
        assert not refusal(known, said(now * 1000), now)
    assert len(known) == 1
    for back in (day, day + 30, day + 100):
        assert refusal(known, said(back * 1000), back) == FORGOTTEN
        assert not refusal(known, said(back * 1000), back, "other")
    assert refusal(known, said((day + 7200) * 1000), day + 7200) == SERVED


def test_calls_are_served_after_a_clock_that_was_ahead_is_set_right():
    known, ahead = Replays({METHOD}), 7200
    assert not refusal(known, said(1000_000), 1000)
    for now in (1010, 1100, 1200):
        assert not refusal(known, said((now + ahead) * 1000), now + ahead)
    for now in (1210, 1400, 5000):
        assert not refusal(known, said(now * 1000), now)
    assert refusal(known, said(1000_000), 1000) == FORGOTTEN
    assert refusal(known, said((1010 + ahead) * 1000), 1010 + ahead) == FORGOTTEN


def test_no_forgotten_call_becomes_valid_when_the_window_is_widened():
    known = Replays({METHOD})
    assert not known.why_refused("ops", said(1000_000), 60, lambda: 1000)
    assert not known.why_refused("ops", said(1100_000), 60, lambda: 1100)
    assert known.why_refused("ops", said(1000_000), 3600, lambda: 1101) == FORGOTTEN
    assert not known.why_refused("ops", said(999_000), 3600, lambda: 1101)  # was never served


def test_every_method_that_has_a_reply_or_an_effect_is_served_once():
    for table in TABLES.values():
        once = served_once(table.methods.values())
        for method in table.methods.values():
            assert (method.name in once) == (not method.cast and method.name != "ping")


def test_equal_calls_of_all_programs_have_different_signatures(tmp_path: Path):
    files, conf = KeyFiles(tmp_path), cfg.ConfigOpts()
    files.add("ops", "operator")
    conf([])
    get_transport(conf, "fake://")
    for name, value in files.options("ops").items():
        conf.set_override(name, value, group="rpc")
    programs, context = [Credentials(conf), Credentials(conf)], RequestContext(overwrite=False)
    made = [
        program.proved(context, "scheduler", "", METHOD, DOCUMENT)
        for _ in range(50)
        for program in programs
    ]
    assert len({each.proof.signature for each in made}) == 100


TIMES = st.lists(st.integers(-20 * MOST, 20 * MOST).map(lambda number: number * GAP // 3))


def spans(*times: int) -> Spans:
    made = Spans()
    for time in times:
        made.add(time)
    return made


@given(TIMES)
def test_every_added_time_is_contained_and_the_number_of_spans_is_bounded(times: list[int]):
    made = spans(*times)
    assert all(time in made for time in times)
    assert len(made) <= MOST


@given(TIMES.filter(lambda times: len(times) <= MOST), st.integers())
def test_no_time_is_contained_that_is_not_between_two_near_ones(times: list[int], other: int):
    before = [time for time in times if time <= other]
    after = [time for time in times if time >= other]
    between = bool(before and after) and min(after) - max(before) <= GAP
    assert (other in spans(*times)) == between


def test_the_oldest_spans_become_one_if_there_are_too_many():
    made = spans(*(number * 3 * GAP for number in range(MOST + 1)))
    assert len(made) == MOST
    assert GAP in made and 4 * GAP not in made
