"""The probe of the RPC server."""

import oslo_messaging
import pytest

from rtagent.service.loop import every
from rtagent.service.rpc_service import RpcProbe


class Server:
    """The server, and the way to it through the broker."""

    def __init__(self) -> None:
        self.serves, self.works, self.calls = True, True, 0

    def started(self) -> bool:
        return self.serves

    def ping(self) -> None:
        self.calls += 1
        if not self.works:
            raise oslo_messaging.MessagingTimeout("no answer")


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def probe(world, server):
    return RpcProbe(server, world.settings, world.notes)


def test_answered_call_is_a_pass(world, server, probe):
    assert probe.turn() == every(10.0)
    assert world.notes.parts["rpc"] == "pass"


def test_unanswered_call_is_a_failure_until_one_is_answered(world, server, probe):
    server.works = False
    assert probe.turn() == every(10.0)
    assert world.notes.parts["rpc"] == "fail: calls do not reach the server: no answer"

    server.works = True
    probe.turn()
    assert world.notes.parts["rpc"] == "pass"


def test_server_that_has_not_started_is_not_called(world, server, probe):
    server.serves = False
    assert probe.turn() == every(10.0)
    assert (server.calls, world.notes.parts) == (0, {})
