"""The cloud of these tests."""

from collections.abc import Iterator

import pytest

from tests.support.cloud import Cloud


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """A cloud on which everything is as its records say in the end."""
    made = Cloud()
    yield made
    made.check()
