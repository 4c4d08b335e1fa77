"""A thread that logs never waits for the destination of the log."""

import logging
import threading

import pytest

from rtagent.telemetry.log_queue import OVERHEAD, LogWriter

#: Seconds within which every machine does what a test waits for.
SOON = 60.0


class Destination:
    """Accepts records while it is open, and keeps their messages."""

    def __init__(self):
        self.lines: list[str] = []
        self.open = threading.Event()
        self.reached = threading.Semaphore(0)

    def write(self, record: logging.LogRecord) -> None:
        self.reached.release()
        assert self.open.wait(SOON)
        self.lines.append(record.getMessage())


@pytest.fixture
def destination():
    made = Destination()
    yield made
    made.open.set()


def record(message: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": str(message)})


def filled(destination: Destination, capacity: int, records: int) -> LogWriter:
    """Return a writer whose thread is blocked with record 0, after some more records."""
    writer = LogWriter("pipe", destination.write, capacity * OVERHEAD)
    writer.put(record(0))
    assert destination.reached.acquire(timeout=SOON)
    for number in range(1, records):
        writer.put(record(number))
    return writer


def test_records_are_written_in_their_order_and_none_is_lost_at_the_end(destination):
    destination.open.set()
    writer = LogWriter("pipe", destination.write)
    for number in range(1000):
        assert writer.put(record(number))
    assert writer.close(SOON)
    assert destination.lines == [str(number) for number in range(1000)]


def test_a_full_queue_drops_and_says_so_once_in_the_place_of_the_dropped(destination):
    writer = filled(destination, capacity=10, records=11)
    assert [writer.put(record("dropped")) for _ in range(5)] == [False] * 5

    destination.open.set()
    assert writer.flush(SOON)
    assert writer.put(record("later"))
    assert writer.close(SOON)

    notice = "5 log lines were dropped here: pipe did not accept them in time"
    assert destination.lines == [*map(str, range(11)), notice, "later"]


def test_dropping_goes_on_until_half_of_the_queue_is_written():
    written, steps = [], threading.Semaphore(0)

    def write(each: logging.LogRecord) -> None:
        assert steps.acquire(timeout=SOON)
        written.append(each.getMessage())

    writer = LogWriter("pipe", write, 10 * OVERHEAD)
    sent = 0
    while writer.put(record(sent)):
        sent += 1
    while not writer.put(record("accepted")):
        steps.release()
    assert len(written) >= 4
    steps.release(1000)
    assert writer.close(SOON)
    notices = [line for line in written if "dropped here" in line]
    assert len(notices) == 1 and written[-2:] == [notices[0], "accepted"]
    assert written[:sent] == [str(number) for number in range(sent)]


def test_the_end_does_not_wait_for_a_destination_that_accepts_nothing(destination):
    writer = filled(destination, capacity=10, records=3)
    assert not writer.flush(0.05)
    assert not writer.close(0.05)


def test_after_the_end_records_are_written_at_once(destination):
    destination.open.set()
    writer = LogWriter("pipe", destination.write)
    assert writer.close(SOON) and writer.close(SOON)
    assert writer.put(record("last words"))
    assert destination.lines == ["last words"]


def test_a_destination_that_fails_gets_the_next_records():
    written = []

    def write(each: logging.LogRecord) -> None:
        if each.getMessage() == "bad":
            raise OSError("no space left on device")
        written.append(each.getMessage())

    writer = LogWriter("file", write)
    for message in ("bad", "good"):
        writer.put(record(message))
    assert writer.close(SOON)
    assert written == ["good"]
