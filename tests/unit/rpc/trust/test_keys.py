"""The keys file and the file of a private key: what is accepted, and what a refusal says."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rtagent.errors import ConfigError
from rtagent.rpc.trust.keys import MAX_SIZE, keys_text, read_keys, read_ring
from rtagent.rpc.trust.private_key import PrivateKey, read_private_key
from tests.support.trust import KeyFiles

PUBLIC = PrivateKey.generate("any").public_key
GOOD = {
    "name": "nova",
    "public_key": PUBLIC,
    "roles": "[conductor]",
    "not_before": "2026-01-01T00:00:00Z",
    "not_after": "2027-01-01T00:00:00Z",
}


def entry(**changed: str | None) -> str:
    fields = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    first, *others = (f"{name}: {value}" for name, value in fields.items())
    return "\n  ".join([f"- {first}", *others])


def refusal(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_keys(str(path))
    return refused.value.message


def test_written_keys_are_read_again(tmp_path: Path):
    files = KeyFiles(tmp_path)
    files.add("nova", "conductor", "reader")
    files.add("cn1", "agent", host="host-1")
    nova, agent = read_keys(str(files.path))
    assert (nova.name, nova.roles, nova.host) == ("nova", ("conductor", "reader"), None)
    assert (agent.roles, agent.host) == (("agent",), "host-1")
    assert keys_text((nova, agent)) == files.path.read_text()


@pytest.mark.parametrize(
    "changed, rule",
    [
        ({"name": "a b"}, "entry 1 (a b): name: must have 1 to 64 letters"),
        ({"public_key": "AAAA"}, "entry 1 (nova): public_key: must be a raw Ed25519 key"),
        ({"public_key": "not base64"}, "public_key: must be a raw Ed25519 key of 32 bytes"),
        ({"public_key": "[x]"}, "public_key: must be a raw Ed25519 key of 32 bytes"),
        ({"public_key": None}, "entry 1 (nova): public_key: is missing"),
        ({"roles": "[admin]"}, "roles: must be a list of one or more of reader, conductor,"),
        ({"roles": "[]"}, "roles: must be a list of one or more of reader, conductor,"),
        ({"roles": "reader"}, "roles: must be a list of one or more of reader, conductor,"),
        ({"not_before": "yesterday"}, "not_before: must be a time in UTC such as 2026-01-31T0"),
        ({"not_after": "2026-02-30T00:00:00Z"}, "not_after: must be a time in UTC such as 202"),
        ({"not_after": GOOD["not_before"]}, "not_after: must be later than not_before"),
        ({"roles": "[agent]"}, "host: a key with the role agent must have it, and no other key"),
        ({"host": "cn1"}, "host: a key with the role agent must have it, and no other key"),
        ({"roles": "[agent]", "host": '"a b"'}, "host: must be the [DEFAULT] host of an agent"),
        ({"comment": "x"}, "comment: is not a field of a key: remove it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_mistake_in_an_entry_names_path_entry_field_and_remedy(
    tmp_path: Path, changed: dict[str, str | None], rule: str
):
    path = tmp_path / "keys.yaml"
    message = refusal(path, f"keys:\n{entry(**changed)}\n")
    assert rule in message
    assert f"[rpc] keys_file = {path}" in message
    assert "entry 1" in message


@pytest.mark.parametrize(
    "text, rule",
    [
        ("", "must have the list keys, and nothing else"),
        ("keys: x\n", "keys must be a list"),
        ("keys: []\nmore: 1\n", "must have the list keys, and nothing else"),
        ("keys: [\n", "is not YAML"),
        ("keys: [x]\n", "entry 1: must have the fields name, public_key, roles"),
        (f"keys:\n{entry()}\n{entry()}\n", "entry 2 (nova): name: another entry has it, too"),
        (
            f"keys:\n{entry()}\n{entry(name='other')}\n",
            "entry 2 (other): public_key: the entry nova has it, too",
        ),
        (f"keys:\n{entry()}\nkeys: []\n", "is not YAML: a name occurs twice in a mapping"),
        (f"keys:\n{entry()}\n  roles: [operator]\n", "a name occurs twice in a mapping"),
        ("keys: " + "[" * 1_000_000, "is not YAML: it has more than 20 levels"),
        ("keys:\n" + "- " * 1_000_000, "is not YAML: it has more than 20 levels"),
        ("#" * (MAX_SIZE + 1), f"cannot be read: it has more than {MAX_SIZE} bytes"),
    ],
    ids=[
        *("empty", "text", "more", "yaml", "entry", "name", "key"),
        *("keys twice", "field twice", "deep", "deep list", "large"),
    ],
)
def test_mistake_in_the_file_says_the_rule(tmp_path: Path, text: str, rule: str):
    assert rule in refusal(tmp_path / "keys.yaml", text)


def test_keys_file_that_others_may_write_or_that_is_missing_is_refused(tmp_path: Path):
    files = KeyFiles(tmp_path)
    files.path.chmod(0o646)
    with pytest.raises(ConfigError, match="every user may write it: chmod o-w"):
        read_keys(str(files.path))
    with pytest.raises(ConfigError, match="No such file or directory; rtagent key generate"):
        read_keys(str(tmp_path / "missing.yaml"))
    assert read_ring(None).get("nova") is None


@pytest.mark.parametrize("read", [read_keys, read_private_key])
def test_what_is_no_file_is_not_opened(tmp_path: Path, read: Callable[[str], object]):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(ConfigError, match="cannot be read: it is not a file"):
            read(str(path))


def test_private_key_signs_for_its_name(tmp_path: Path):
    files = KeyFiles(tmp_path)
    made = files.add("nova", "conductor")
    key = read_private_key(str(files.file("nova")))
    assert (key.name, key.public_key) == ("nova", made.public_key)
    assert key.sign(b"text") == made.sign(b"text")


@pytest.mark.parametrize(
    "change, rule",
    [
        (lambda pem: pem.partition("\n")[2], "has no line 'rtagent key NAME' before its PEM"),
        (lambda pem: pem.replace("nova", "a/b"), "has no line 'rtagent key NAME' before its PEM"),
        (lambda pem: pem[:60], "is not a private key in PEM without a password"),
    ],
    ids=["no name", "bad name", "cut"],
)
def test_wrong_private_key_says_what_to_do(tmp_path: Path, change, rule: str):
    path = tmp_path / "nova.pem"
    path.write_text(change(PrivateKey.generate("nova").pem()))
    path.chmod(0o600)
    with pytest.raises(ConfigError) as refused:
        read_private_key(str(path))
    assert f"[rpc] signing_key = {path}: {rule}" in refused.value.message


@pytest.mark.parametrize("mode", [0o604, 0o602], ids=["readable", "writable"])
def test_private_key_of_everybody_is_refused(tmp_path: Path, mode: int):
    path = tmp_path / "nova.pem"
    path.write_text(PrivateKey.generate("nova").pem())
    path.chmod(mode)
    with pytest.raises(ConfigError, match="every user may read or write it: chmod o-rwx"):
        read_private_key(str(path))
    path.chmod(0o640)  # of a group that has only the daemon's user
    assert read_private_key(str(path)).name == "nova"


def test_many_keys_are_read_by_libyaml_and_once_for_all_parts_of_a_program(tmp_path: Path):
    files = KeyFiles(tmp_path)
    files.add("nova", "conductor")
    assert hasattr(yaml, "CBaseLoader")  # without it, a reload with 1000 keys takes 0.3 s
    first, again = read_keys(str(files.path)), read_keys(str(files.path))
    assert first[0] is again[0]
    files.add("late", "conductor")
    assert [key.name for key in read_keys(str(files.path))] == ["nova", "late"]
