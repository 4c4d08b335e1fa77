"""A whole OpenStack, with rtagent in Nova's compute services. It stays up for the next run."""

import pytest

from tests.openstack.commands import tool


@pytest.fixture(scope="session", autouse=True)
def cloud() -> None:
    tool("up", "rtagent")
