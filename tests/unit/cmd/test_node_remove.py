"""When a node's record may be removed."""

from datetime import UTC, datetime, timedelta

import pytest

from rtagent.cmd.node_remove import removable
from rtagent.errors import ClaimConflict, IdentityError
from rtagent.model.node import NodeRecord
from tests.unit.api.states import NODE

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def record(silent: float | None) -> NodeRecord:
    seen = None if silent is None else NOW - timedelta(seconds=silent)
    return NodeRecord(node=NODE, epoch=1, revision=1, last_seen_up=seen)


@pytest.mark.parametrize("silent", [None, 60, 61])
def test_an_idle_node_whose_agent_is_down_may_go(silent):
    removable(NOW, 60)(record(silent), 0)


@pytest.mark.parametrize("silent", [-5, 0, 59.9])
def test_a_node_whose_agent_is_up_stays(silent):
    with pytest.raises(IdentityError, match=r"kvm-7.example .* stop it, and wait .*60 s"):
        removable(NOW, 60)(record(silent), 0)


def test_a_node_with_claims_stays_however_long_its_agent_is_down():
    with pytest.raises(ClaimConflict, match="3 live claims"):
        removable(NOW, 60)(record(9999), 3)
