"""Whether calls come through."""

import oslo_messaging
import pytest

from rtagent.service.loop import every
from rtagent.service.pulse import Pulse


class Bus:
    """A server, and the way to it."""

    def __init__(self) -> None:
        self.serves, self.works, self.calls = True, True, 0

    def ping(self) -> None:
        self.calls += 1
        if not self.works:
            raise oslo_messaging.MessagingTimeout("no answer")


@pytest.fixture
def bus():
    return Bus()


@pytest.fixture
def pulse(world, bus):
    return Pulse(lambda: bus.serves, bus.ping, world.notes, interval=lambda: 10.0)


def test_a_call_that_comes_through_is_a_pass(world, bus, pulse):
    assert pulse.turn() == every(10.0)
    assert world.notes.parts["rpc"] == "pass"


def test_a_loss_is_told_until_it_is_over(world, bus, pulse):
    bus.works = False
    assert pulse.turn() == every(10.0)
    assert world.notes.parts["rpc"] == "fail: no call comes through: no answer"

    bus.works = True
    pulse.turn()
    assert world.notes.parts["rpc"] == "pass"


def test_a_server_that_has_not_started_is_not_called(world, bus, pulse):
    bus.serves = False
    assert pulse.turn() == every(10.0)
    assert (bus.calls, world.notes.parts) == (0, {})
