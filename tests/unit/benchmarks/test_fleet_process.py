"""Processes of a fleet, which leave the CPUs to the servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.fleet.process import SESSION_NICENESS, RemoteProcess


class Priority:
    """Shows that of its process."""

    def session(self) -> int:
        return os.getsid(0)

    def niceness(self) -> int:
        return os.nice(0)

    def session_niceness(self) -> str:
        writable = os.access(SESSION_NICENESS, os.W_OK)  # not on every machine
        return SESSION_NICENESS.read_text() if writable else ""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[RemoteProcess[Priority]]:
    made = RemoteProcess(Priority, tmp_path / "log")
    yield made
    made.close()


def test_has_the_lowest_priority_in_a_session_of_its_own(process: RemoteProcess[Priority]):
    assert process.proxy.niceness() == 19
    assert process.proxy.session() == process.pid
    # Such a file ends with the niceness: ``/autogroup-12 nice 19``.
    if shown := process.proxy.session_niceness():
        assert shown.split()[-1] == "19"
