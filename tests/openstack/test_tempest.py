"""OpenStack's own tests of a cloud pass with rtagent, and leave nothing behind."""

import pytest

from tests.openstack.commands import rtagent, tool

HOSTS = ("compute1", "compute2")


def test_tempest_passes_with_rtagent():
    assert ", 0 failed" in tool("tempest", "--quick")


def test_the_accounts_agree_after_tempest():
    assert "The accounts agree." in tool("accounts")


@pytest.mark.parametrize("host", HOSTS)
def test_nothing_is_left_on_a_host_after_tempest(host: str):
    assert [rtagent(host, what, "list") for what in ("claim", "drift", "orphan")] == [[], [], []]
