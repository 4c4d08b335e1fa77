"""Tokens: their file, and the headers that have one."""

import base64
from pathlib import Path

import pytest

from rtagent.api.guard import allows, new_token, read_tokens
from rtagent.errors import ConfigError

TEXT, TOKEN = new_token("grafana", "reader")
OTHER, _ = new_token("other", "reader")
DIGEST = "sha256:" + 64 * "0"


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"user:{password}".encode()).decode()


def test_file_has_only_digests_and_is_read_back(tmp_path: Path):
    file = tmp_path / "tokens"
    file.write_text(f"# who\n\n{TOKEN.line()}")
    assert read_tokens(str(file)) == (TOKEN,)
    assert TEXT not in file.read_text()


# The headers are random, so the names of the cases cannot be made of them.
@pytest.mark.parametrize(
    "header",
    [f"Bearer {TEXT}", f"bearer  {TEXT} ", basic(TEXT)],
    ids=["bearer", "lower case", "basic"],
)
def test_header_with_the_token_is_allowed(header: str):
    assert allows((TOKEN,), header)
    assert not allows((), header)


@pytest.mark.parametrize(
    "header",
    [
        *("", "Bearer", "Bearer ", TEXT, f"Digest {TEXT}", f"Bearer {OTHER}", f"Bearer {TEXT}x"),
        *(f"Bearer {TOKEN.digest}", basic(OTHER), "Basic !", "Basic /w==", "Bearer \udcff"),
    ],
    ids=map(str, range(12)),
)
def test_other_headers_are_refused(header: str):
    assert not allows((TOKEN,), header)


@pytest.mark.parametrize(
    "line",
    ["x", f"x reader {DIGEST} y", f"x admin {DIGEST}", f"a/b reader {DIGEST}", "x reader sha256:0"],
)
def test_wrong_line_is_named(tmp_path: Path, line: str):
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN.line()}{line}\n")
    with pytest.raises(ConfigError, match=r"\[api\] tokens_file = .*line 2 is not NAME ROLE"):
        read_tokens(str(file))


def test_file_that_is_missing_or_that_everyone_may_write_is_refused(tmp_path: Path):
    file = tmp_path / "tokens"
    with pytest.raises(ConfigError, match=r"cannot be read: No such file.*rtagent token create"):
        read_tokens(str(file))
    file.write_text(TOKEN.line())
    file.chmod(0o666)
    with pytest.raises(ConfigError, match="every user may write it: chmod o-w"):
        read_tokens(str(file))
