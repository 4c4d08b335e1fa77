"""Every handler of the log has a queue: ours, those of libraries, those of a new configuration."""

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

from rtagent.telemetry.log_queue import LogQueue
from tests.unit.telemetry.test_log_writer import SOON


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
    assert logger.handlers == logging.getLogger().handlers
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


def test_handlers_of_a_new_configuration_are_adopted(logger, queue):
    queue.adopt()
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setLevel(logging.ERROR)
    logger.addHandler(handler)
    queue.adopt()
    queue.adopt()
    logger.info("left out")
    logger.error("a\nb")
    assert queue.close(SOON)
    assert text.getvalue() == "a\\nb\n"


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
