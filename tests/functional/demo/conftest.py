"""A directory for a demonstration."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def directory():
    """A directory with a short name, because the path of a socket is short."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)
