"""The difference between two clocks, as ``ping`` shows it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rtagent.rpc.clock_skew import clock_skew, clock_text


def test_time_is_in_utc_to_the_millisecond():
    time = datetime(2026, 1, 31, 2, 0, 0, 1999, tzinfo=timezone(timedelta(hours=2)))
    assert clock_text(time) == "2026-01-31T00:00:00.001Z"


@pytest.mark.parametrize("seconds", [-3600, 0, 3600])
def test_skew_is_that_of_the_server_to_this_clock(seconds: int):
    def ping() -> dict[str, str]:
        return {"time": clock_text(datetime.now(UTC) + timedelta(seconds=seconds))}

    assert clock_skew(ping) == pytest.approx(-seconds, abs=30)
