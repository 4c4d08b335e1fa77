"""``rtagent token``: the file that it writes."""

import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtagent.api.guard import new_token, read_tokens
from tests.functional.cli.shell import Run, configured


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


@pytest.fixture
def rtagent(tmp_path: Path, tokens: Path) -> Run:
    return configured(tmp_path, f"[api]\ntokens_file = {tokens}\n")


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


def test_a_command_waits_for_another_one_and_keeps_what_it_has_written(rtagent: Run, tokens: Path):
    directory = os.open(tokens.parent, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    later = threading.Thread(target=rtagent, args=("token", "create", "grafana"))
    later.start()
    later.join(0.5)  # without the lock it would write now
    tokens.write_text(new_token("prometheus", "reader")[1].line())
    os.close(directory)
    later.join()
    assert [each.name for each in read_tokens(str(tokens))] == ["prometheus", "grafana"]
