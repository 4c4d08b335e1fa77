"""``rtagent key``: the files that it writes, and what it refuses."""

import contextlib
import json
import os
import resource
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rtagent.rpc.trust.credentials import read_private_key
from rtagent.rpc.trust.keys import read_keys
from tests.functional.cli.shell import Run, configured


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


@pytest.fixture
def rtagent(tmp_path: Path, keys: Path) -> Iterator[Run]:
    """Runs a command in the directory of the keys file."""
    with contextlib.chdir(tmp_path):
        yield configured(tmp_path, f"[rpc]\nkeys_file = {keys}\n")


def test_generated_key_has_a_private_file_and_a_public_entry(rtagent: Run, keys: Path):
    made = rtagent("key", "generate", "nova", "--role", "conductor", "--role", "reader")
    assert made.code == 0, made.err
    private = keys.with_name("nova.jwk")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert "nova.jwk" in made.out
    assert json.loads(private.read_text())["d"] not in made.out + made.err + keys.read_text()
    [entry] = read_keys(str(keys))
    assert (entry.name, entry.roles) == ("nova", ("conductor", "reader"))
    assert entry.public_key == read_private_key(str(private)).public_key
    now = datetime.now(UTC)
    assert entry.not_before < now < entry.not_after
    assert timedelta(days=364) < entry.not_after - now < timedelta(days=366)


def test_keys_are_added_listed_and_revoked(rtagent: Run, keys: Path, tmp_path: Path):
    for name, *options in (
        ("cn1", "--role", "agent", "--host", "host-1", "--output", str(tmp_path / "own")),
        ("ops", "--role", "operator", "--days", "1"),
    ):
        made = rtagent("key", "generate", name, *options)
        assert made.code == 0, made.err
    assert read_private_key(str(tmp_path / "own")).name == "cn1"
    listed = rtagent("key", "list", "-f", "json").json
    entries = [(each["name"], each["roles"], each["host"]) for each in listed]
    assert entries == [("cn1", "agent", "host-1"), ("ops", "operator", None)]
    assert all(each["valid"] is True for each in listed)
    before = keys.read_text()
    assert "cn1 would be revoked" in rtagent("key", "revoke", "cn1", "--dry-run").err
    assert keys.read_text() == before
    revoked = rtagent("key", "revoke", "cn1")
    assert (revoked.code, "a daemon refuses it after SIGHUP" in revoked.err) == (0, True)
    assert [each.name for each in read_keys(str(keys))] == ["ops"]
    missing = rtagent("key", "revoke", "cn1")
    assert "has no key cn1: rtagent key list shows all" in missing.err


def test_a_private_key_that_cannot_be_written_leaves_no_file(rtagent: Run, tmp_path: Path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        failed = rtagent("key", "generate", "nova", "--role", "conductor")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (failed.code, "nova.jwk: cannot be written: File too large" in failed.err) == (1, True)
    assert list(tmp_path.glob("*.j*")) == []


@pytest.mark.parametrize(
    "words, why",
    [
        ("nova --role agent", "rtagent: --host must be given with --role agent"),
        ("nova --role reader --host cn1", "rtagent: --host must be given with --role agent"),
        ("ops --role reader", "has a key ops: rtagent key revoke removes it"),
        ("nova --role reader --output ops.jwk", "File exists; --output names another file"),
        ("nova --role reader --output no/a.jwk", "No such file or directory; --output names"),
    ],
    ids=["no-host", "host", "name", "exists", "directory"],
)
def test_refused_key_changes_no_file(rtagent: Run, keys: Path, words: str, why: str):
    assert rtagent("key", "generate", "ops", "--role", "operator").code == 0
    before = {file.name: file.read_text() for file in keys.parent.iterdir()}
    refused = rtagent("key", "generate", *words.split())
    assert refused.code != 0
    assert why in refused.err
    assert {file.name: file.read_text() for file in keys.parent.iterdir()} == before


def test_a_link_stays_and_a_new_file_has_the_group_of_its_directory(
    rtagent: Run, keys: Path, tmp_path: Path
):
    shared = tmp_path / "shared"
    shared.mkdir()
    if os.geteuid() == 0:
        os.chown(shared, -1, os.getegid() + 1)
    keys.symlink_to(shared / "all.json")
    for words in ("generate nova --role reader", "generate eve --role reader", "revoke eve"):
        assert rtagent("key", *words.split()).code == 0
    assert keys.is_symlink()
    assert [each.name for each in read_keys(str(shared / "all.json"))] == ["nova"]
    assert (shared / "all.json").stat().st_gid == shared.stat().st_gid
