"""Exit codes."""

import pytest

from rtagent import errors
from rtagent.cmd.exits import MEANINGS, Exit, code, described


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.ComputeResourcesUnavailable(reasons=[]), 3),
        (errors.NodeNotReady(), 4),
        (errors.AgentUnreachable(where="x", why="y", remedy="z"), 4),
        (errors.ClaimNotFound(claim_uuid="x"), 5),
        (errors.NodeNotFound(node="x", served="y"), 5),
        (errors.ClaimConflict("x"), 6),
        (errors.ClaimExpired(claim_uuid="x"), 6),
        (errors.IllegalTransition(claim_uuid="x", state="y", verb="z", legal="none"), 6),
        (errors.InvalidRequest(method="x", errors=[]), 2),
        (errors.SchemaMismatch("x"), 1),
        (ExceptionGroup("x", [errors.ConfigError(group="a", option="b", value="c", rule="d")]), 1),
        (ZeroDivisionError(), 1),
    ],
)
def test_an_error_has_a_stable_code(error, expected):
    assert code(error) == expected


def test_every_code_is_described():
    assert set(MEANINGS) == set(Exit)
    assert all(f"  {exit_.value}  " in described() for exit_ in Exit)
