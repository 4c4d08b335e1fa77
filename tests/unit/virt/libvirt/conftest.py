"""What hangs in a test, until it is released."""

import threading

import pytest


@pytest.fixture
def release():
    """Set it, and what hangs returns; it is set in the end."""
    event = threading.Event()
    yield event
    event.set()
