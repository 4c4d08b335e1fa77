from collections.abc import Callable

import pytest

from rtagent.testing.placement import MemoryPlacement
from tests.support.audited_nodes import AuditedNode


@pytest.fixture
def make_node() -> Callable[..., AuditedNode]:
    """Makes nodes whose allocations are audited."""
    return lambda *arguments, **named: AuditedNode(MemoryPlacement(), *arguments, **named)


@pytest.fixture
def node(make_node: Callable[..., AuditedNode]) -> AuditedNode:
    return make_node()
