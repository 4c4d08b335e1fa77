"""A fleet, made as tools/fleet makes one: a small one, and a larger one with `--long`. Counts are
judged, and no time is.
"""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace
from rich.console import Console

from benchmarks.fleet.host import Intervals
from benchmarks.fleet.measured import Measurements
from benchmarks.fleet.progress import Progress
from benchmarks.fleet.run import BOOT, IDLE, PHASES, Options, Run

HOSTS = 5
MANY = 100


@pytest.fixture(scope="module")
def run(long: bool) -> Run:
    # Without refreshes, which may fall into the idle time.
    never = Intervals(refresh=0)
    options = Options(
        hosts=HOSTS,
        at_once=HOSTS,
        alone=10,
        idle=30,
        day=10,
        outage=0,
        phases=(BOOT, IDLE),
        intervals=never,
    )
    if long:
        options = replace(
            options, hosts=MANY, at_once=MANY, idle=60, day=60, outage=60, phases=PHASES
        )
    with Progress(Console(quiet=True)) as progress:
        made = Run(options, progress)
        made.make()
    return made


def values(measured: Measurements, phase: str) -> Mapping[str, float]:
    found = next(each for each in measured.phases if each.name == phase)
    return {value.name: value.value for value in found.values}


def test_all_accounts_agree_at_the_end(run: Run):
    assert run.wrong == []


def test_agents_that_start_at_once_do_not_repeat_themselves(run: Run):
    """The bounds are higher than the targets, because servers may answer too late. An agent that
    does not pause between two attempts exceeds them.
    """
    boot = values(run.measured, "boot storm")
    assert boot["enrolments tried by host"] <= 10
    assert boot["most repetitions of a request to Placement"] <= 10


def test_idle_agents_are_quiet(run: Run):
    """The time may begin just before a heartbeat, and a report may be under way when it ends: so
    the bounds are higher than the targets. One more write in each interval exceeds them, as do two
    more messages.
    """
    idle = values(run.measured, "idle")
    assert idle["requests of refreshes"] == 0
    assert idle["other requests to Placement"] == 0
    assert idle["messages beside reports"] < 10
    assert idle["writing transactions in a report_interval"] < 2


def test_callers_build_move_and_delete_servers(run: Run, long: bool):
    if not long:
        pytest.skip("takes minutes: --long")
    day = values(run.measured, "a day")
    assert min(day["builds"], day["moves"], day["deletes"]) > 0
