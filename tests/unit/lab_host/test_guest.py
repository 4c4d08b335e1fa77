"""Commands in a guest, spoken with an agent that a test plays."""

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.channel import ChannelError
from lab.guest import Guest

Answer = Callable[[dict[str, Any]], Any]


class Agent:
    """:ivar asked: the commands that it received, without those that begin a session."""

    def __init__(self, path: Path, answers: dict[str, list[Any]]) -> None:
        self.asked: list[dict[str, Any]] = []
        self._answers = answers
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection, connection.makefile("rwb") as lines:
            lines.write(b'{"return": "of an earlier caller"}\n')
            for line in lines:
                lines.write(json.dumps(self._answer(json.loads(line))).encode() + b"\n")
                lines.flush()

    def _answer(self, document: dict[str, Any]) -> Any:
        if document["execute"] == "guest-sync-delimited":
            return {"return": document["arguments"]["id"]}
        self.asked.append(document)
        return self._answers[document["execute"]].pop(0)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def agent_that(tmp_path: Path) -> Iterator[Callable[..., tuple[Guest, Agent]]]:
    made: list[Agent] = []

    def make(**answers: list[Any]) -> tuple[Guest, Agent]:
        replies = {name.replace("_", "-"): answer for name, answer in answers.items()}
        made.append(Agent(tmp_path / "guest.sock", replies))
        return Guest(tmp_path / "guest.sock"), made[0]

    yield make
    for agent in made:
        agent.close()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_command_is_waited_for_and_its_output_read(agent_that):
    ended = {"exited": True, "exitcode": 3, "out-data": encoded("out"), "err-data": encoded("err")}
    guest, agent = agent_that(
        guest_exec=[{"return": {"pid": 7}}],
        guest_exec_status=[{"return": {"exited": False}}, {"return": ended}],
    )

    done = guest.run(["sh", "-c", "exit 3"], given="in")

    assert (done.code, done.stdout, done.stderr) == (3, "out", "err")
    asked = agent.asked[0]["arguments"]
    assert (asked["path"], asked["arg"]) == ("sh", ["-c", "exit 3"])
    assert asked["input-data"] == encoded("in")
    assert agent.asked[1]["arguments"] == {"pid": 7}


def test_a_command_that_a_signal_ended(agent_that):
    guest, _ = agent_that(
        guest_exec=[{"return": {"pid": 7}}],
        guest_exec_status=[{"return": {"exited": True, "signal": 9}}],
    )
    assert guest.run(["sleep", "9"]).code == -9


def test_a_command_that_cannot_be_run(agent_that):
    guest, _ = agent_that(guest_exec=[{"error": {"class": "GenericError", "desc": "no such file"}}])
    with pytest.raises(ChannelError, match="no such file"):
        guest.run(["nothing"])


def test_a_guest_that_is_not_there(tmp_path):
    assert not Guest(tmp_path / "guest.sock").answers()
