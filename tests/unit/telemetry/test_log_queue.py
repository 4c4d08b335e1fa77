"""Every handler of the log has a queue; a thread that logs never waits for its destination."""

import fcntl
import io
import logging
import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable

import pytest

from rtagent.telemetry.log_queue import OVERHEAD, LogQueue, LogWriter

#: Seconds within which every machine does what a test waits for.
SOON = 60.0


@pytest.fixture
def counts():
    return Counter()


@pytest.fixture
def logger():
    """A logger with handlers of its own; everything that `adopt` changes is restored."""
    root, hook = logging.getLogger(), threading.excepthook
    before = list(root.handlers)
    own = logging.getLogger("tests.log_queue")
    own.propagate, own.handlers = False, []
    own.setLevel(logging.INFO)
    yield own
    own.handlers = []
    root.handlers, threading.excepthook = before, hook
    logging.captureWarnings(False)


@pytest.fixture
def queue(counts):
    root = logging.getLogger()
    root.handlers = []  # pytest's, which are not those of a daemon
    return LogQueue(lambda name, label, n: counts.update({(name, label): n}), capacity=20_000)


def received(reading: int) -> bytes:
    try:
        return os.read(reading, 2**20)
    except BlockingIOError:
        return b""


def wait_for(condition: Callable[[], bool]) -> bool:
    """Wait for at most `SOON` seconds until the condition holds, and return whether it does."""
    deadline = time.monotonic() + SOON
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.001)
    return holds


def test_an_unread_pipe_blocks_neither_callers_nor_other_handlers(logger, queue, counts):
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    text = io.StringIO()
    with open(reading, "rb", closefd=True), open(writing, "w") as pipe:
        logger.handlers = [logging.StreamHandler(pipe), logging.StreamHandler(text)]
        queue.adopt()
        for number in range(500):
            logger.info("%d %s", number, "x" * 1000)
        assert counts["log_dropped", str(writing)] > 300
        assert not queue.close(0.05)
        os.set_blocking(reading, False)
        assert wait_for(lambda: b"dropped here" in received(reading))
    assert "0 x" in text.getvalue()


def test_loggers_that_share_a_handler_share_its_queue(logger, queue):
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logger.addHandler(handler)
    logging.getLogger().addHandler(handler)
    queue.adopt()
    adopted = logger.handlers
    queue.adopt()  # after a reload of the options
    assert adopted == logger.handlers == logging.getLogger().handlers
    logger.info("once")
    assert queue.close(SOON)
    assert text.getvalue() == "once\n"


def test_a_line_that_cannot_be_formatted_does_not_disturb_the_caller(logger, queue, counts):
    class Broken(logging.Formatter):
        def format(self, record):
            raise ZeroDivisionError

    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(Broken())
    logger.addHandler(handler)
    queue.adopt()
    dropped = "log_dropped", "StreamHandler"
    assert (dropped in counts, counts[dropped]) == (True, 0)  # known before the first line
    logger.info("anything")
    assert (counts[dropped], counts.total()) == (1, 1)
    assert queue.close(SOON)


def test_warnings_and_the_end_of_a_thread_go_to_the_log(logger, queue):
    def fail() -> None:
        raise ZeroDivisionError("in a thread")

    text = io.StringIO()
    logging.getLogger().addHandler(logging.StreamHandler(text))
    queue.adopt()
    warnings.warn("from a library", stacklevel=1)
    thread = threading.Thread(target=fail, name="odd")
    thread.start()
    thread.join()
    assert queue.close(SOON)
    assert "from a library" in text.getvalue()
    assert "thread odd ended\n    Traceback" in text.getvalue()


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
