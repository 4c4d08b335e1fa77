"""Readers of the unix socket, judged by their user and their groups. Needs root, to be others."""

import json
import os
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rtagent.api.address import UnixAddress
from rtagent.api.guard import Guard, peer_of, read_names
from rtagent.api.server import ReadAPI
from rtagent.conf.rpc import Api
from rtagent.errors import ConfigError
from tests.support.api_states import sources
from tests.support.trackers import Reports

#: Ids that no account has: names are not needed.
MONITOR, STRANGER, GROUP = 54321, 54322, 54323


class Served:
    """A read API in a directory that every user can enter."""

    def __init__(self, directory: Path) -> None:
        self.path, self.reporter = directory / "api.sock", Reports()
        address = UnixAddress(str(self.path))
        guard = Guard(address, self.options())
        self.api = ReadAPI(address, sources(), self.reporter, guard=guard)
        self.api.start()

    def options(self, *readers: str) -> Api:
        return Api(address=str(self.path), readers=readers or None)

    def read(self, uid: int, gid: int = STRANGER, groups: tuple[int, ...] = ()) -> Any:
        """Read as another user. Return the status and the document, or None: not connected."""
        command = ["curl", "--silent", "--write-out", "%{http_code}", "--unix-socket"]
        done = subprocess.run(
            [*command, str(self.path), "http://agent/nodes"],
            user=uid,
            group=gid,
            extra_groups=groups,
            capture_output=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            return None
        body, status = done.stdout[:-3], done.stdout[-3:]
        return int(status), json.loads(body)

    def mode(self) -> int:
        return stat.S_IMODE(self.path.stat().st_mode)


@pytest.fixture
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        made = Served(directory)
        try:
            yield made
        finally:
            made.api.stop()


def test_by_default_the_group_of_the_daemon_reads(served: Served):
    assert served.mode() == 0o660
    assert served.read(0)[0] == 200
    assert served.read(MONITOR, os.getegid())[0] == 200
    assert served.read(MONITOR, GROUP, (os.getegid(),))[0] == 200
    assert served.read(MONITOR) is None  # the mode of the socket


def test_a_list_names_who_reads_and_others_get_a_reason_and_a_line(served: Served):
    served.api.reload(served.options(str(MONITOR), f"@{GROUP}"))
    assert served.mode() == 0o666
    assert served.read(0)[0] == 200
    assert served.read(MONITOR)[0] == 200
    assert served.read(STRANGER, GROUP)[0] == 200
    assert served.read(STRANGER, STRANGER, (GROUP,))[0] == 200
    for gid in (STRANGER, os.getegid()):
        status, problem = served.read(STRANGER, gid)
        assert status == 403
        assert problem["error"] == "Forbidden"
        assert f"the user with the uid {STRANGER} may not read: [api] readers" in problem["message"]
    assert served.reporter.counts["read_api_refused", "peer"] == 2
    lines = [sentence for level, sentence in served.reporter.logged if level == "info"]
    for line in lines:
        assert line.startswith(f"refused GET /nodes of uid {STRANGER}, pid ")
    assert len(lines) == 2

    served.api.reload(served.options("no-such-user"))  # the readers stay
    assert served.read(MONITOR)[0] == 200
    served.api.reload(served.options())
    assert served.read(MONITOR) is None


@pytest.mark.parametrize("name", ["no-such-user", "@no-such-group"])
def test_unknown_names_are_refused(name: str):
    with pytest.raises(ConfigError, match=f"readers = {name}: is not a"):
        read_names([name])
    assert read_names(["root", "@root"]) == read_names(["0", "@0"])


def test_the_groups_of_a_process_are_those_that_it_has():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = peer_of(ours)
    assert (peer.pid, peer.uid) == (os.getpid(), os.geteuid())
    assert peer.gids == {os.getegid(), *os.getgroups()}
