"""Guard: the names by which a read API over TCP may be reached."""

import json
from pathlib import Path

import pytest

from rtagent.api.address import Address, TcpAddress, UnixAddress
from rtagent.api.application import Application
from rtagent.api.guard import Guard, new_token
from rtagent.conf.rpc import Api
from rtagent.ports import NullReporter
from tests.support.api_states import sources

LOOPBACK = TcpAddress(8775)


def ask(guard: Guard, **headers: str) -> tuple[int, dict[str, object]]:
    started: list[str] = []
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/claims", **headers}
    application = Application(sources(), NullReporter(), guard)
    body = b"".join(application(environ, lambda status, _: started.append(status)))
    return int(started[0].split()[0]), json.loads(body)


@pytest.mark.parametrize("host", ["attacker.example:8775", "localhost.attacker.example", "[::2]:1"])
def test_loopback_is_not_read_by_a_name_that_another_server_resolves_to_it(host: str):
    status, answer = ask(Guard(LOOPBACK, Api(address="")), HTTP_HOST=host)
    assert status == 421
    assert "claims" not in answer
    assert "use localhost, 127.0.0.1 or [::1], or set [api] tokens_file" in str(answer["message"])


@pytest.mark.parametrize(
    ("address", "host"),
    [
        *((LOOPBACK, host) for host in ("localhost", "LOCALHOST:8775", "127.0.0.1:1", "[::1]", "")),
        (TcpAddress(8775, "127.0.0.2"), "127.0.0.2:8775"),
        (TcpAddress(8775, "::1"), "[::1]:8775"),
        (UnixAddress("/run/rtagent.sock"), "attacker.example"),
    ],
)
def test_names_of_this_host_are_answered(address: Address, host: str):
    assert ask(Guard(address, Api(address="")), HTTP_HOST=host)[0] == 200


def test_with_tokens_every_name_is_answered_to_who_has_one(tmp_path: Path):
    text, token = new_token("grafana", "reader")
    file = tmp_path / "tokens"
    file.write_text(token.line())
    guard = Guard(LOOPBACK, Api(address="", tokens_file=str(file)))
    assert ask(guard, HTTP_HOST="node1.example")[0] == 401
    assert ask(guard, HTTP_HOST="node1.example", HTTP_AUTHORIZATION=f"Bearer {text}")[0] == 200
