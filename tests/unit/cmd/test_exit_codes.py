"""Exit codes of errors."""

import pytest

from rtagent import errors
from rtagent.cmd.exit_codes import MEANINGS, Exit, exit_code, exit_code_help


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.ComputeResourcesUnavailable(reasons=[]), 3),
        (errors.NodeNotReady(), 4),
        (errors.ClaimNotFound(claim_uuid="x"), 5),
        (errors.ClaimConflict("x"), 6),
        (errors.InvalidRequest(method="x", errors=[]), 2),
        (errors.SchemaMismatch("x"), 1),
        (ExceptionGroup("x", [errors.ConfigError(group="a", option="b", value="c", rule="d")]), 1),
        (ZeroDivisionError(), 1),
    ],
)
def test_each_error_has_its_exit_code(error, expected):
    assert exit_code(error) == expected


def test_every_exit_code_is_in_the_help():
    assert set(MEANINGS) == set(Exit)
    assert all(f"  {exit_.value}  " in exit_code_help() for exit_ in Exit)
