from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for callers of one tracker."""
    with ThreadPoolExecutor(max_workers=32) as executor:
        yield executor
