"""The commands that are suggested in place of one that there is not."""

import pytest

from tests.functional.cli.shell import run


@pytest.mark.parametrize(
    ("command", "suggested"),
    [
        *(("drain", "node drain"), ("undrain", "node undrain"), ("adopt", "orphan adopt")),
        *(("force-down compute1", "service force-down"), ("clam list", "claim list")),
    ],
)
def test_command_with_that_word_or_a_similar_one_is_suggested(command: str, suggested: str):
    refused = run(*command.split())
    assert refused.code == 2
    assert f"  {suggested}\n" in refused.out
