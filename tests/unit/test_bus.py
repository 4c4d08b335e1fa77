"""Events reach those who have subscribed to their type."""

from rtagent.bus import Bus
from rtagent.model.base import Value


class Opened(Value, frozen=True, kw_only=True):
    number: int


class Closed(Opened, frozen=True, kw_only=True):
    pass


def test_subscribers_of_exactly_the_type_get_an_event_in_the_order_of_their_subscriptions():
    bus, got = Bus(), []
    bus.subscribe(Opened, lambda event: got.append(("first", event.number)))
    bus.subscribe(Closed, lambda event: got.append(("other", event.number)))
    bus.subscribe(Opened, lambda event: got.append(("last", event.number)))
    bus.publish(Opened(number=7))
    assert got == [("first", 7), ("last", 7)]
