"""The inventories that `node show` prints, and the rule of `node remove`."""

from datetime import UTC, datetime, timedelta

import pytest

from rtagent.cmd.node import InventoryLines, removal_rule
from rtagent.errors import ClaimConflict, IdentityError
from rtagent.model.node import NodeRecord
from tests.support.api_states import NODE

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AMOUNTS = {
    "unit": "MB",
    "allocation_ratio": 1.5,
    "total": 2047,
    "reserved": 1,
    "claimable": 3069,
    "used": 1025,
    "free": -1,
}


def test_disk_in_gb_is_rounded_down_except_for_reserved_and_used():
    lines = InventoryLines({"DISK_GB": AMOUNTS}).human_readable().splitlines()
    assert lines[1].split() == ["DISK_GB", "1.5", "1", "1", "2", "2", "-1"]


def record(silent: float | None) -> NodeRecord:
    seen = None if silent is None else NOW - timedelta(seconds=silent)
    return NodeRecord(node=NODE, epoch=1, revision=1, last_seen_up=seen)


@pytest.mark.parametrize("silent", [None, 60, 61, -61])
def test_a_node_without_claims_whose_agent_is_down_may_be_removed(silent):
    removal_rule(NOW, 60)(record(silent), 0)


@pytest.mark.parametrize("silent", [-5, 0, 59.9])
def test_a_node_whose_agent_is_up_is_not_removed(silent):
    with pytest.raises(IdentityError, match=r"kvm-7.example .*60 s.* stop it, and wait"):
        removal_rule(NOW, 60)(record(silent), 0)


def test_a_node_with_claims_is_not_removed_even_if_its_agent_is_down():
    with pytest.raises(ClaimConflict, match="3 live claims"):
        removal_rule(NOW, 60)(record(9999), 3)
