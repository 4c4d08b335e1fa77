"""The unit tests of audits of allocations, with a real Placement."""

import pytest

from tests.unit.placement import test_allocation_auditor

globals().update(
    {key: test for key, test in vars(test_allocation_auditor).items() if key.startswith("test_")}
)


@pytest.fixture
def many(long):
    """Placement needs 25 ms for each consumer that a test writes."""
    return 1000 if long else 100


@pytest.fixture
def node(make_node):
    return make_node()
