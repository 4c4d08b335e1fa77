"""The keys file and the file of a private key: what is accepted, and what a refusal says."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rtagent.errors import ConfigError
from rtagent.rpc.trust.credentials import PrivateKey, read_private_key
from rtagent.rpc.trust.keys import MAX_SIZE, keys_text, read_keys, read_ring
from tests.support.trust import KeyFiles

PUBLIC, OTHER = (PrivateKey.generate("any").public_key for _ in range(2))
VALID = {"not_before": "2026-01-01T00:00:00Z", "not_after": "2027-01-01T00:00:00Z"}
KIND = {"kty": "OKP", "crv": "Ed25519", "x": PUBLIC}
GOOD = {"kid": "nova", **KIND, "roles": ["conductor"], **VALID}


def entry(**changed: object) -> str:
    members = {**GOOD, **changed}
    return json.dumps({name: value for name, value in members.items() if value is not None})


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
        ({"kid": "a b"}, "key number 2: is not an Ed25519 key: Expected `str` matching regex"),
        ({"x": None}, "Object missing required field `x`; compare it with what rtagent key"),
        ({"x": PUBLIC[:-1] + "B"}, "- at `$.x`"),
        ({"kty": "EC"}, "Invalid enum value 'EC' - at `$.kty`"),
        ({"roles": ["admin"]}, "key eve: roles: 'admin' is none of reader, conductor,"),
        ({"not_before": "yesterday"}, "Invalid RFC3339 encoded datetime - at `$.not_before`"),
        ({"not_before": "2026-01-01T00:00:00"}, "Expected `datetime` with a timezone component"),
        ({"not_after": "9999-12-31T23:59:59-01:00"}, "key eve: not_before, not_after: must be in"),
        ({"not_before": "0001-01-01T00:00:00+01:00"}, "such as 2026-01-31T00:00:00Z"),
        ({"d": PUBLIC}, "key eve: d: this is the secret: remove it, and replace the key"),
        ({"not_after": GOOD["not_before"]}, "key eve: not_after: must be later than not_before"),
        ({"roles": ["agent"]}, "host: a key with the role agent must have it, and no other key"),
        ({"host": "cn1"}, "host: a key with the role agent must have it, and no other key"),
        ({"roles": ["agent"], "host": "a b"}, "- at `$.host`"),
    ],
)
def test_mistake_in_a_key_names_path_key_member_and_rule(
    tmp_path: Path, changed: dict[str, object], rule: str
):
    path = tmp_path / "keys.json"
    text = entry(**{"kid": "eve", "x": OTHER, **changed})
    message = refusal(path, f'{{"keys": [{entry()}, {text}]}}')
    assert rule in message
    assert f"[rpc] keys_file = {path}" in message


SAME_KEY = f'{{"keys": [{entry()}, {entry(kid="other")}]}}'
KEYS_TWICE = f'{{"keys": [{entry()}], "keys": []}}'
ROLES_TWICE = f'{{"keys": [{entry()[:-1]}, "roles": ["operator"]}}]}}'


@pytest.mark.parametrize(
    "text, rule",
    [
        ("", "is not JSON: Expecting value"),
        ("{}", "Object missing required field `keys`"),
        ('{"keys": ["x"]}', "Expected `object`, got `str` - at `$.keys[0]`"),
        (f'{{"keys": [{entry()}, {entry()}]}}', "key nova: kid: another key has it, too"),
        (SAME_KEY, "key other: x: the key nova has it, too"),
        (KEYS_TWICE, "an object has the member 'keys' twice: remove one"),
        (ROLES_TWICE, "the member 'roles' twice: remove one"),
        ('{"keys": ' + "[" * 1_000_000, "is not JSON: it has too many levels"),
        ("#" * (MAX_SIZE + 1), f"cannot be read: it has more than {MAX_SIZE} bytes"),
    ],
    ids=[
        *("empty", "none", "text", "name", "key"),
        *("keys twice", "member twice", "deep", "large"),
    ],
)
def test_mistake_in_the_file_says_the_rule(tmp_path: Path, text: str, rule: str):
    assert rule in refusal(tmp_path / "keys.json", text)


def test_keys_file_that_others_may_write_or_that_is_missing_is_refused(tmp_path: Path):
    files = KeyFiles(tmp_path)
    files.path.chmod(0o646)
    with pytest.raises(ConfigError, match="every user may write it: chmod o-w"):
        read_keys(str(files.path))
    with pytest.raises(ConfigError, match="No such file or directory; rtagent key generate"):
        read_keys(str(tmp_path / "missing.json"))
    assert read_ring(None).get("nova") is None


@pytest.mark.parametrize("read", [read_keys, read_private_key])
def test_what_is_no_file_is_not_opened(tmp_path: Path, read: Callable[[str], object]):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(ConfigError, match="cannot be read: it is not a file"):
            read(str(path))


@pytest.mark.parametrize(
    "change, rule",
    [
        ({"kid": None}, "Object missing required field `kid`"),
        ({"kid": "a/b"}, "- at `$.kid`"),
        ({"d": "AAAA"}, "- at `$.d`"),
        ({"x": PUBLIC}, "Public key does not match private key"),
        ({"crv": "Ed448"}, "Invalid enum value 'Ed448' - at `$.crv`"),
    ],
)
def test_wrong_private_key_says_what_to_do(tmp_path: Path, change: dict[str, str], rule: str):
    path = tmp_path / "nova.jwk"
    members = {**json.loads(PrivateKey.generate("nova").text()), **change}
    path.write_text(json.dumps({name: value for name, value in members.items() if value}))
    path.chmod(0o600)
    with pytest.raises(ConfigError) as refused:
        read_private_key(str(path))
    assert f"[rpc] signing_key = {path}: is not an Ed25519 key as" in refused.value.message
    assert f"{rule}; rtagent key generate makes one" in refused.value.message


@pytest.mark.parametrize("mode", [0o604, 0o602], ids=["readable", "writable"])
def test_private_key_of_everybody_is_refused(tmp_path: Path, mode: int):
    path = tmp_path / "nova.jwk"
    path.write_text(PrivateKey.generate("nova").text())
    path.chmod(mode)
    with pytest.raises(ConfigError, match="every user may read or write it: chmod o-rwx"):
        read_private_key(str(path))
    path.chmod(0o640)  # of a group that has only the daemon's user
    assert read_private_key(str(path)).name == "nova"
