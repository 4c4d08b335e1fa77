"""Bounds for each caller: calls in flight, and calls per second."""

from msgspec.structs import replace

from rtagent.conf.rpc import Rpc
from rtagent.errors import TooManyRequests
from rtagent.rpc.trust.access import MAX_CALLERS, CallerBounds
from tests.support.hosts import ManualClock


class Server:
    """Bounds, and the options in force."""

    def __init__(self, **options: float) -> None:
        self.clock, self.options = ManualClock(), Rpc(**options)
        self.bounds = CallerBounds(lambda: self.options, self.clock)

    def admitted(self, caller: str, calls: int) -> int:
        """How many of some calls are admitted, which do not end."""
        number = 0
        for _ in range(calls):
            try:
                self.bounds.enter(caller, "get_node")
            except TooManyRequests as error:
                assert "[rpc] max_call" in error.message
                assert error.kwargs["limit"] in (
                    self.options.max_calls_per_caller,
                    self.options.max_call_rate,
                )
            else:
                number += 1
        return number


def test_a_caller_has_a_number_of_calls_in_flight_and_others_have_theirs():
    server = Server(max_calls_per_caller=3)
    assert server.admitted("a", 5) == 3
    assert server.admitted("b", 5) == 3
    server.bounds.leave("a")
    assert server.admitted("a", 5) == 1


def test_a_caller_has_a_number_of_calls_per_second():
    server = Server(max_call_rate=10.0, max_calls_per_caller=1000)
    assert server.admitted("a", 50) == 10
    assert server.admitted("b", 50) == 10
    server.clock.advance(0.5)
    assert server.admitted("a", 50) == 5
    server.clock.advance(3600)
    assert server.admitted("a", 50) == 10


def test_a_rate_below_one_admits_a_call_now_and_then():
    server = Server(max_call_rate=0.1, max_calls_per_caller=1000)
    assert server.admitted("a", 5) == 1
    server.clock.advance(9)
    assert server.admitted("a", 5) == 0
    server.clock.advance(2)
    assert server.admitted("a", 5) == 1


def test_options_may_change():
    server = Server(max_calls_per_caller=1)
    assert server.admitted("a", 5) == 1
    server.options = replace(server.options, max_calls_per_caller=4)
    assert server.admitted("a", 5) == 3


def test_invented_callers_do_not_fill_the_memory_and_none_in_flight_is_forgotten():
    server = Server(max_calls_per_caller=2)
    assert server.admitted("a", 1) == 1
    for number in range(2 * MAX_CALLERS):
        assert server.admitted(f"invented-{number}", 1) == 1
        server.bounds.leave(f"invented-{number}")
    assert len(server.bounds) == MAX_CALLERS
    assert server.admitted("a", 5) == 1
