"""The time of day of one process is stepped; its monotonic clock is not."""

import os
import subprocess
import sys
from pathlib import Path

from tests.chaos.world.clock import Clock

DAY = 86400

#: Prints both clocks for each line that it reads, after waits of three ways.
_SCRIPT = """
import sys, threading, time, datetime
for line in sys.stdin:
    threading.Event().wait(0.01)
    time.sleep(0.01)
    assert abs(datetime.datetime.now().timestamp() - time.time()) < 30
    print(time.time(), time.monotonic(), flush=True)
"""


def test_a_step_changes_the_time_of_day_only(tmp_path: Path):
    clock = Clock(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT],
        env={**os.environ, **clock.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:

        def read(step: int) -> tuple[float, float]:
            clock.step(step)
            print(file=process.stdin, flush=True)
            day, monotonic = map(float, process.stdout.readline().split())
            return day, monotonic

        try:
            first, *others = [read(step) for step in (0, DAY, -DAY, 0)]
        finally:
            process.stdin.close()
    for (day, monotonic), step in zip(others, (DAY, -DAY, 0), strict=True):
        assert abs(day - first[0] - step - (monotonic - first[1])) < 30
        assert first[1] < monotonic < first[1] + 600
