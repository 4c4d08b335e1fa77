"""Keys: the public keys of all callers, as the keys file lists them."""

from __future__ import annotations

import base64
import binascii
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rtagent.conf.rpc import GROUP, ROLES
from rtagent.errors import ConfigError
from rtagent.model.base import Value

if TYPE_CHECKING:  # 8 MiB of memory, which only programs with keys need
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

#: The role whose keys are each of one host.
_AGENT = "agent"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"[^\s\x00-\x1f\x7f]{1,255}")
_TIME = "%Y-%m-%dT%H:%M:%SZ"
#: The length of a raw public key, in bytes.
_LENGTH = 32
#: The size of a file in bytes: that of some 20 000 keys.
MAX_SIZE = 2**22
#: The number of levels of a file, which needs four.
MAX_NESTING = 20
_FIELDS = ("name", "public_key", "roles", "not_before", "not_after")
_HEADER = "# rtagent key generate and rtagent key revoke write this file, without comments.\n"


class PublicKey(Value, frozen=True, kw_only=True):
    """The entry of a key. :ivar public_key: the raw Ed25519 key, in base64.
    :ivar host: that of the agent which has the key; None: the key is of no agent.
    """

    name: str
    public_key: str
    roles: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    host: str | None = None

    def why_unusable(self, now: datetime) -> str:
        """Return why the key cannot be used at this time, or ""."""
        if now < self.not_before:
            return f"the key {self.name} is valid only from {format_time(self.not_before)}"
        if now >= self.not_after:
            return f"the key {self.name} expired at {format_time(self.not_after)}"
        return ""


#: libyaml, if PyYAML has it, needs a tenth of the time.
_Base: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Makes text, lists and mappings only. Of a name that a mapping has twice, YAML would keep the
    last value, and so drop keys without a word.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(found) < len(node.value):
            raise yaml.constructor.ConstructorError(
                None, None, "a name occurs twice in a mapping", node.start_mark
            )
        return found


class KeyRing:
    """Public keys by name. Immutable, so that threads may share it."""

    def __init__(self, keys: Iterable[PublicKey] = ()) -> None:
        self._keys = {key.name: (key, _loaded(key.public_key)) for key in keys}

    def get(self, name: str) -> tuple[PublicKey, Ed25519PublicKey] | None:
        """Return the entry of a key, and what verifies its signatures; None: it is unknown."""
        return self._keys.get(name)

    def has_key_of(self, host: str) -> bool:
        """Return whether a key is of the agent of this host, also one that has expired."""
        return any(key.host == host for key, _ in self._keys.values())


def is_name(text: str) -> bool:
    """Return whether a key may have this name."""
    return _NAME.fullmatch(text) is not None


def is_host(text: str) -> bool:
    """Return whether a key may be of a host with this name."""
    return _HOST.fullmatch(text) is not None


def format_time(time: datetime) -> str:
    """Return a time as the keys file has it."""
    return time.astimezone(UTC).strftime(_TIME)


def read_ring(path: str | None) -> KeyRing:
    """Return the keys of a file; None: there are none. :raises ConfigError: as `read_keys`."""
    return KeyRing(() if path is None else read_keys(path))


def read_keys(path: str) -> tuple[PublicKey, ...]:
    """Return the keys of a file.

    :raises ConfigError: it names the entry, the field and the rule.
    """
    try:
        mode, text = read_file(path, MAX_SIZE)
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or str(exc)
        raise refused(path, f"cannot be read: {why}; rtagent key generate makes it") from exc
    if mode & stat.S_IWOTH:
        raise refused(path, "every user may write it: chmod o-w")
    try:
        return _parsed(text)
    except yaml.YAMLError as exc:
        raise refused(path, f"is not YAML: {' '.join(str(exc).split())}") from exc
    except ValueError as exc:
        raise refused(path, str(exc)) from exc


@lru_cache(maxsize=1)
def _parsed(text: str) -> tuple[PublicKey, ...]:
    """Return the keys of a text. At a reload, several parts of a program read the same file.

    :raises ValueError: yaml.YAMLError:
    """
    _check_nesting(text)
    return tuple(_keys(yaml.load(text, Loader=_Loader)))  # noqa: S506  it makes text only


def _check_nesting(text: str) -> None:
    """Refuse a text for which libyaml would need more stack than a process has, and crash.

    :raises yaml.YAMLError:
    """
    depth = 0
    for event in yaml.parse(text, Loader=_Base):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_NESTING:
            raise yaml.YAMLError(f"it has more than {MAX_NESTING} levels")


def read_file(path: str | Path, most: int) -> tuple[int, str]:
    """Return the mode and the text of a file of at most this number of bytes.

    :raises OSError: ValueError: it is none. A pipe, which would never end, is not opened.
    """
    file = Path(path)
    if (status := file.stat()).st_size > most:
        raise ValueError(f"it has more than {most} bytes")
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a file")
    return status.st_mode, file.read_text()


def keys_text(keys: Sequence[PublicKey]) -> str:
    """Return the text of a keys file."""
    entries = []
    for key in keys:
        times = {name: format_time(getattr(key, name)) for name in ("not_before", "not_after")}
        entry = {"name": key.name, "public_key": key.public_key, "roles": list(key.roles), **times}
        entries.append(entry if key.host is None else {**entry, "host": key.host})
    return _HEADER + yaml.safe_dump({"keys": entries}, sort_keys=False)


def refused(path: str, rule: str) -> ConfigError:
    """Return the error about a keys file."""
    return ConfigError(group=GROUP, option="keys_file", value=path, rule=rule)


def _keys(document: Any) -> Iterator[PublicKey]:
    """:raises ValueError: names the entry, the field and the rule."""
    if not isinstance(document, dict) or list(document) != ["keys"]:
        raise ValueError("must have the list keys, and nothing else")
    entries = document["keys"] or []  # an empty text, too
    if not isinstance(entries, list):
        raise ValueError("keys must be a list")
    names, public = set[str](), dict[str, str]()
    for number, entry in enumerate(entries, 1):
        try:
            key = _key(entry)
            if key.name in names:
                raise ValueError("name: another entry has it, too: rename or remove one")
            if (other := public.get(key.public_key)) is not None:
                raise ValueError(f"public_key: the entry {other} has it, too: remove one")
        except ValueError as exc:
            name = entry.get("name") if isinstance(entry, dict) else None
            shown = f" ({name[:64]})" if isinstance(name, str) else ""
            raise ValueError(f"entry {number}{shown}: {exc}") from exc
        names.add(key.name)
        public[key.public_key] = key.name
        yield key


def _key(entry: Any) -> PublicKey:
    """:raises ValueError: names the field and the rule."""
    if not isinstance(entry, dict):
        raise ValueError(f"must have the fields {', '.join(_FIELDS)}")
    if missing := [name for name in _FIELDS if name not in entry]:
        raise ValueError(f"{missing[0]}: is missing")
    if unknown := sorted(entry.keys() - {*_FIELDS, "host"}):
        raise ValueError(f"{unknown[0][:64]}: is not a field of a key: remove it")
    key = PublicKey(
        name=_name(entry),
        public_key=_public_key(entry),
        roles=_roles(entry),
        not_before=_time(entry, "not_before"),
        not_after=_time(entry, "not_after"),
        host=_host(entry),
    )
    if key.not_after <= key.not_before:
        raise ValueError("not_after: must be later than not_before")
    if (_AGENT in key.roles) != (key.host is not None):
        raise ValueError("host: a key with the role agent must have it, and no other key")
    return key


def _name(entry: Mapping[str, Any]) -> str:
    name = entry["name"]
    if not isinstance(name, str) or not is_name(name):
        raise ValueError("name: must have 1 to 64 letters, digits, dots, underscores and dashes")
    return name


def _public_key(entry: Mapping[str, Any]) -> str:
    text = entry["public_key"]
    try:
        raw = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
        _loaded(text)
    except (binascii.Error, ValueError, TypeError):
        raw = b""
    if len(raw) != _LENGTH:
        raise ValueError(
            f"public_key: must be a raw Ed25519 key of {_LENGTH} bytes in base64: copy it from what"
            " rtagent key generate has written"
        )
    return base64.b64encode(raw).decode()


def _roles(entry: Mapping[str, Any]) -> tuple[str, ...]:
    roles = entry["roles"]
    if not isinstance(roles, list) or not roles or any(role not in ROLES for role in roles):
        raise ValueError(f"roles: must be a list of one or more of {', '.join(ROLES)}")
    return tuple(roles)


def _time(entry: Mapping[str, Any], field: str) -> datetime:
    try:
        return datetime.strptime(entry[field], _TIME).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        raise ValueError(f"{field}: must be a time in UTC such as 2026-01-31T00:00:00Z") from None


def _host(entry: Mapping[str, Any]) -> str | None:
    host = entry.get("host")
    if host is not None and not (isinstance(host, str) and is_host(host)):
        raise ValueError("host: must be the [DEFAULT] host of an agent")
    return host


def _loaded(public_key: str) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key))
