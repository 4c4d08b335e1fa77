"""Keys: the public keys of all callers, as the keys file lists them, a JSON Web Key Set (RFC 7517).

A key has members of its own: what its owner may do, on which host, and when.
"""

from __future__ import annotations

import json
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from rtagent.conf.rpc import GROUP, ROLES
from rtagent.errors import ConfigError
from rtagent.model.base import Converter, Value

if TYPE_CHECKING:  # 8 MiB of memory, which only programs with keys need
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

#: The role whose keys are each of one host.
_AGENT = "agent"
NAME = r"^[A-Za-z0-9._-]{1,64}\Z"
_HOST = r"^[^\s\x00-\x1f\x7f]{1,255}\Z"
#: 32 bytes in base64url, without padding: there is one text for each value.
COORDINATE = r"^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]\Z"
#: The size of a file in bytes: that of some 15 000 keys.
MAX_SIZE = 2**22
_Time = Annotated[datetime, Meta(tz=True)]
_REMEDY = "compare it with what rtagent key generate writes"
#: What makes a file of keys that is missing.
GENERATE = "; rtagent key generate makes it"


class PublicKey(Value, frozen=True, kw_only=True, omit_defaults=True):
    """An Ed25519 key. Members of no meaning here are ignored, as the RFC says.

    :ivar public_key: its 32 bytes, in base64url. :ivar roles: of `ROLES`.
    :ivar host: that of the agent which has the key; None: the key is of no agent.
    """

    name: Annotated[str, Meta(pattern=NAME)] = field(name="kid")
    kty: Literal["OKP"]
    crv: Literal["Ed25519"]
    public_key: Annotated[str, Meta(pattern=COORDINATE)] = field(name="x")
    roles: Annotated[tuple[str, ...], Meta(min_length=1)]
    not_before: _Time
    not_after: _Time
    host: Annotated[str, Meta(pattern=_HOST)] | None = None

    def why_unusable(self, now: datetime) -> str:
        """Return why the key cannot be used at this time, or ""."""
        if now < self.not_before:
            return f"the key {self.name} is valid only from {format_time(self.not_before)}"
        if now >= self.not_after:
            return f"the key {self.name} expired at {format_time(self.not_after)}"
        return ""


class _KeySet(Struct, frozen=True):
    keys: tuple[dict[str, Any], ...]


_key_sets, _keys = Converter(_KeySet), Converter(PublicKey)


class KeyRing:
    """Public keys by name. Immutable, so that threads may share it."""

    def __init__(self, keys: Iterable[PublicKey] = ()) -> None:
        self._keys = {key.name: (key, _loaded(key)) for key in keys}

    def get(self, name: str) -> tuple[PublicKey, Ed25519PublicKey] | None:
        """Return the entry of a key, and what verifies its signatures; None: it is unknown."""
        return self._keys.get(name)

    def has_key_of(self, host: str) -> bool:
        """Return whether a key is of the agent of this host, also one that has expired."""
        return any(key.host == host for key, _ in self._keys.values())


def is_name(text: str) -> bool:
    """Return whether a key may have this name."""
    return re.match(NAME, text) is not None


def is_host(text: str) -> bool:
    """Return whether a key may be of a host with this name."""
    return re.match(_HOST, text) is not None


def format_time(time: datetime) -> str:
    """Return a time as the keys file has it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_ring(path: str | None) -> KeyRing:
    """Return the keys of a file; None: there are none. :raises ConfigError: as `read_keys`."""
    return KeyRing(() if path is None else read_keys(path))


def read_keys(path: str) -> tuple[PublicKey, ...]:
    """Return the keys of a file. :raises ConfigError: it names the key, the member and the rule."""
    try:
        return _parsed(read_file(path, MAX_SIZE, GENERATE))
    except ValueError as exc:
        raise refused(path, str(exc)) from exc


@lru_cache(maxsize=1)
def _parsed(text: str) -> tuple[PublicKey, ...]:
    """Return the keys of a text. At a reload, several parts of a program read the same file.

    :raises ValueError: it names the key, the member and the rule.
    """
    try:
        members = _key_sets.convert(json_of(text)).keys
    except (msgspec.ValidationError, ValueError) as exc:
        raise ValueError(f"is not a JSON Web Key Set: {exc}; {_REMEDY}") from exc
    keys = tuple(_key(number, key) for number, key in enumerate(members, 1))
    for problem in _problems(keys):
        raise ValueError(problem)
    return keys


def _key(number: int, members: Mapping[str, Any]) -> PublicKey:
    """Return a key. :raises ValueError: it names the key, the member and the rule."""
    name = members.get("kid")
    shown = name if isinstance(name, str) and is_name(name) else f"number {number}"
    if "d" in members:
        raise ValueError(f"key {shown}: d: this is the secret: remove it, and replace the key")
    try:
        return _keys.convert(members)
    except (msgspec.ValidationError, UnicodeEncodeError) as exc:
        raise ValueError(f"key {shown}: is not an Ed25519 key: {exc}; {_REMEDY}") from exc


def json_of(text: str) -> Any:
    """Return a document. :raises ValueError: it is none, or has a member twice: the last one would
    count, and keys would be dropped without a word.
    """

    def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(members)
        if len(found) < len(members):
            twice, _ = Counter(name for name, _ in members).most_common(1)[0]
            raise ValueError(f"an object has the member {twice[:64]!r} twice: remove one")
        return found

    try:
        return json.loads(text, object_pairs_hook=once)
    except RecursionError:
        raise ValueError("is not JSON: it has too many levels") from None
    except json.JSONDecodeError as exc:
        raise ValueError(f"is not JSON: {exc}") from exc


def read_file(path: str | Path, most: int, remedy: str = "", *, secret: bool = False) -> str:
    """Return the text of a file of at most this number of bytes.

    :param remedy: if it cannot be read. :param secret: other users must not read it, either.
    :raises ValueError: it cannot be used, and why. A pipe, which would never end, is not opened.
    """
    file = Path(path)
    try:
        status = file.stat()
        if status.st_size > most:
            raise ValueError(f"it has more than {most} bytes")
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a file")
        text = file.read_text()
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or str(exc)
        raise ValueError(f"cannot be read: {why}{remedy}") from exc
    if secret and status.st_mode & stat.S_IRWXO:
        raise ValueError("every user may read or write it: chmod o-rwx, or replace the key")
    if status.st_mode & stat.S_IWOTH:
        raise ValueError("every user may write it: chmod o-w")
    return text


def keys_text(keys: Sequence[PublicKey]) -> str:
    """Return the text of a keys file."""
    return msgspec.json.format(msgspec.json.encode({"keys": keys})).decode() + "\n"


def refused(path: str, rule: str) -> ConfigError:
    """Return the error about a keys file."""
    return ConfigError(group=GROUP, option="keys_file", value=path, rule=rule)


def _problems(keys: Iterable[PublicKey]) -> Iterator[str]:
    """Yield what is wrong with keys whose members have the right types."""
    names, public = set[str](), dict[str, str]()
    for key in keys:
        if key.name in names:
            yield f"key {key.name}: kid: another key has it, too: rename or remove one"
        if unknown := [role for role in key.roles if role not in ROLES]:
            yield f"key {key.name}: roles: {unknown[0][:64]!r} is none of {', '.join(ROLES)}"
        if key.not_before.utcoffset() or key.not_after.utcoffset():  # some have none in UTC
            rule = "must be in UTC, such as 2026-01-31T00:00:00Z"
            yield f"key {key.name}: not_before, not_after: {rule}"
        if key.not_after <= key.not_before:
            yield f"key {key.name}: not_after: must be later than not_before"
        if (_AGENT in key.roles) != (key.host is not None):
            yield f"key {key.name}: host: a key with the role agent must have it, and no other key"
        if (other := public.get(key.public_key)) is not None:
            yield f"key {key.name}: x: the key {other} has it, too: remove one"
        names.add(key.name)
        public[key.public_key] = key.name


def _loaded(key: PublicKey) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from jwt.algorithms import OKPAlgorithm

    loaded = OKPAlgorithm.from_jwk({"kty": key.kty, "crv": key.crv, "x": key.public_key})
    assert isinstance(loaded, Ed25519PublicKey)
    return loaded
