"""The events of a daemon: followed over a kill, and read by many viewers at once."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from rtagent.api.client import EventStream, ReadClient
from rtagent.errors import AgentUnreachable
from tests.functional.cli.shell import run
from tests.servers.daemon import ROOT, Daemon, wait_until

VIEWERS = 100


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("daemon"), "fake://") as made:
        made.wait_ready()
        yield made


class Follower:
    """``rtagent events --follow -f json`` in a process. :ivar events: what it has printed."""

    def __init__(self, daemon: Daemon, errors: Path) -> None:
        self._errors = errors
        argv = ["--config-file", str(daemon.config_file), "events", "--follow", "-f", "json"]
        with errors.open("w") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rtagent.cmd.rtagent", *argv],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.events: list[dict] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.events.append(json.loads(line))

    def has_epochs(self, number: int) -> bool:
        """Whether the ends of audits in so many epochs were printed."""
        ends = (event for event in self.events if event["event_type"] == "audit.end")
        return len({event["epoch"] for event in ends}) == number

    def has_warned(self, number: int) -> bool:
        """Whether it has said so often that it waits for the agent."""
        return self._errors.read_text().count("waiting for the agent") == number

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def test_follower_shows_every_event_once_over_a_kill(daemon: Daemon, tmp_path: Path):
    follower = Follower(daemon, tmp_path / "stderr")
    try:
        wait_until(partial(follower.has_epochs, 1))
        for kills in (1, 2):
            daemon.kill()
            wait_until(partial(follower.has_warned, kills))
            daemon.start().wait_ready()
            wait_until(partial(follower.has_epochs, 1 + kills))
    finally:
        follower.stop()
    sequences = [event["sequence"] for event in follower.events]
    assert sequences == list(range(1, len(sequences) + 1))
    assert follower.has_warned(2)
    listed = run("--config-file", str(daemon.config_file), "events", "-f", "json")
    ids = [event["id"] for event in listed.json]
    assert ids[: len(sequences)] == [event["id"] for event in follower.events]
    offline = run("--config-file", str(daemon.config_file), "--offline", "events", "-f", "json")
    assert offline.json[: len(listed.json)] == listed.json


def test_viewers_of_events_do_not_starve_a_health_probe(daemon: Daemon):
    """A connection that has not sent its request yet may be closed in favour of another one."""
    client = ReadClient(daemon.address, timeout=300)
    done = threading.Event()

    def watch() -> None:
        stream, retry, served = EventStream(lambda f: client.text("events", **f), newest=0), 0.0, 0
        while not (done.wait(retry) and served):
            with suppress(AgentUnreachable):
                retry, served = stream.next().retry, served + 1

    def probed() -> bool:
        with suppress(AgentUnreachable):
            return "checks" in client.get("health")
        return False

    with ThreadPoolExecutor(VIEWERS) as pool:
        watching = [pool.submit(watch) for _ in range(VIEWERS)]
        try:
            for _ in range(20):
                wait_until(probed)
        finally:
            done.set()
        for viewer in watching:
            viewer.result()
