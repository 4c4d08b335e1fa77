"""What a daemon serves to its readers: pages, and events that are followed over a kill."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rtagent.api.client import ReadClient
from tests.functional.cli.shell import run
from tests.servers.daemon import ROOT, Daemon, wait_until


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("daemon"), "fake://") as made:
        made.wait_ready()
        yield made


def test_the_daemon_serves_its_pages_and_what_is_behind_them(daemon: Daemon):
    audits = daemon.read("timeline", kind="audit")["timeline"]
    assert "start" in audits[-1]["subject"]
    history = daemon.read("history")
    assert (history["history"], history["older"]) == ([], None)
    client = ReadClient(daemon.address)
    for path in ("/", "/page/claims", "/page/timeline", "/page/history"):
        assert client.request(path)[0] == 200, path
    status, body = client.request("/page/fit?vcpus=1&memory_mb=64")
    assert (status, b"It fits" in body) == (200, True)
    assert daemon.read("claims")["claims"] == []
    assert client.request("/page/claims/unknown")[0] == 404


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
