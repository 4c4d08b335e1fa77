"""The agent of these tests."""

import pytest

from tests.support.rpc import Agent


@pytest.fixture
def agent() -> Agent:
    return Agent()
