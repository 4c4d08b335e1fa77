"""The records in memory, with which conductors are tested, are as those of a database."""

from __future__ import annotations

import pytest

from tests.functional.db.test_servers import (  # noqa: F401
    test_a_deleted_server_leaves_only_calls_that_are_owed,
    test_a_server_has_one_operation,
    test_an_operation_has_one_owner,
    test_one_of_many_conductors_takes_an_operation,
    test_records_are_written_and_read,
)
from tests.support.server_records import MemoryServerStore


@pytest.fixture
def store():
    return MemoryServerStore()
