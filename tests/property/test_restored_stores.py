"""A store that is taken back to any earlier commit is always noticed: at the next commit, by the
periodic check of an idle agent, and at the start of a stopped one. Until an operator accepts it,
nothing is claimed, and only calls free anything."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.restored_nodes import check_every_copy
from tests.support.stores import MemoryDatabase

VERBS = ("claim", "claim", "activate", "renew", "release", "count", "restart")
DEEDS = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 3)), min_size=1, max_size=6)


@settings(max_examples=settings.default.max_examples // 5)
@given(deeds=DEEDS)
def test_store_that_is_taken_back_to_any_commit_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[tuple[str, int]]
):
    check_every_copy(tmp_path_factory.mktemp("state"), MemoryDatabase(), deeds)
