"""Casts before, during and after a time in which a real message broker accepts no messages."""

from collections.abc import Callable

import pytest

from rtagent.rpc import AGENT
from rtagent.rpc.casts import BoundedCasts, CastFailed, report_host_state
from rtagent.rpc.roles import SCHEDULER
from tests.functional.rpc.conftest import Station
from tests.functional.rpc.test_blocked_broker import alarm
from tests.servers import RabbitMQ
from tests.servers.daemon import wait_until

REPORT = report_host_state(description=True, instances=False)
#: Why a cast fails while an earlier one has not ended.
EARLIER = "the message broker has not accepted earlier messages yet"


class Sender:
    """Casts to one agent, or to all. :ivar errors: why casts have failed."""

    def __init__(self, casts: BoundedCasts, host: str | None) -> None:
        self._casts, self._host = casts, host
        self.errors: list[str] = []

    def sends(self) -> bool:
        try:
            self._casts.send([REPORT], self._host)
        except CastFailed as error:
            self.errors.append(str(error))
            return False
        return True

    def gave_up(self) -> bool:
        """Whether a sequence of messages has ended without success, after one more cast."""
        self.sends()
        return sum(error != EARLIER for error in self.errors) > 1


@pytest.fixture
def station(rabbitmq: RabbitMQ, station_on: Callable[..., Station]) -> Station:
    return station_on(rabbitmq.transport_url).start()


@pytest.mark.parametrize("fanout", [False, True], ids=["one", "all"])
def test_casts_are_sent_after_the_broker_was_away(
    rabbitmq: RabbitMQ, station: Station, fanout: bool
):
    casts = BoundedCasts(station.transport(), AGENT, SCHEDULER)
    sender = Sender(casts, None if fanout else station.host)
    wait_until(lambda: sender.sends() and bool(station.agent.asked))
    with rabbitmq.outage():
        wait_until(lambda: not sender.sends())
    before = len(station.agent.asked)
    wait_until(lambda: sender.sends() and len(station.agent.asked) > before)


@pytest.mark.parametrize("fanout", [False, True], ids=["one", "all"])
def test_casts_are_sent_after_the_broker_was_blocked(
    rabbitmq: RabbitMQ, station: Station, fanout: bool
):
    """The connection is still open then, and its channel is closed."""
    casts = BoundedCasts(station.transport(), AGENT, SCHEDULER)
    sender = Sender(casts, None if fanout else station.host)
    wait_until(lambda: sender.sends() and bool(station.agent.asked))
    with alarm(rabbitmq):
        wait_until(sender.gave_up, 300)
    before = len(station.agent.asked)
    wait_until(lambda: sender.sends() and len(station.agent.asked) > before)
