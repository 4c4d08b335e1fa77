"""``rtagent token``: the file that it writes."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.cli.shell import Run, run


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


@pytest.fixture
def rtagent(tmp_path: Path, tokens: Path) -> Run:
    config = tmp_path / "rtagent.conf"
    config.write_text(f"[api]\ntokens_file = {tokens}\n")
    return lambda *argv: run("--config-file", str(config), *argv)


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.mark.usefixtures("strict_umask")
def test_the_group_can_read_the_file_whatever_the_umask(rtagent: Run, tokens: Path):
    assert rtagent("token", "create", "grafana").code == 0
    assert mode(tokens) == 0o640
    tokens.chmod(0o660)
    assert rtagent("token", "revoke", "grafana").code == 0
    assert mode(tokens) == 0o660


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a file away")
def test_owner_and_group_of_the_file_stay(rtagent: Run, tokens: Path):
    assert rtagent("token", "create", "grafana").code == 0
    os.chown(tokens, 65534, 65533)
    assert rtagent("token", "create", "prometheus").code == 0
    assert (tokens.stat().st_uid, tokens.stat().st_gid) == (65534, 65533)


def test_a_dry_run_revokes_nothing(rtagent: Run, tokens: Path):
    assert rtagent("token", "create", "grafana").code == 0
    before = tokens.read_text()
    tested = rtagent("token", "revoke", "grafana", "--dry-run")
    assert (tested.code, tokens.read_text()) == (0, before)
    assert "grafana (reader) would be revoked" in tested.err
    assert "has no token x" in rtagent("token", "revoke", "x", "--dry-run").err


def test_an_option_that_is_not_set_is_named(tmp_path: Path):
    config = tmp_path / "rtagent.conf"
    config.write_text("[api]\n")
    refused = run("--config-file", str(config), "token", "list")
    assert "[api] tokens_file is not set: name the file for the tokens" in refused.err
