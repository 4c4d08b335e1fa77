"""PrivateKey: the key that signs the calls and replies of one program."""

from __future__ import annotations

import base64
import re
import stat
from typing import TYPE_CHECKING

from rtagent.conf.rpc import GROUP
from rtagent.errors import ConfigError
from rtagent.rpc.trust.keys import is_name, read_file

if TYPE_CHECKING:  # see `keys`
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: The size of a file in bytes.
MAX_SIZE = 2**16
#: The line before the PEM block, which says the name of the key.
_LINE = re.compile(r"^rtagent key (\S+)$", re.MULTILINE)


class PrivateKey:
    """:ivar name: of the key in the keys file."""

    def __init__(self, name: str, key: Ed25519PrivateKey) -> None:
        self.name, self._key = name, key

    @classmethod
    def generate(cls, name: str) -> PrivateKey:
        """Return a new key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(name, Ed25519PrivateKey.generate())

    @property
    def public_key(self) -> str:
        """The raw public key, in base64."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        raw = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return base64.b64encode(raw).decode()

    def pem(self) -> str:
        """Return the text of the file, which is a secret."""
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        block = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return f"rtagent key {self.name}\n{block.decode()}"

    def sign(self, text: bytes) -> bytes:
        """Return the signature of a text."""
        return self._key.sign(text)


def read_private_key(path: str) -> PrivateKey:
    """Return the key of a file. :raises ConfigError: it names the path, the rule and the remedy."""
    try:
        mode, text = read_file(path, MAX_SIZE)
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or str(exc)
        raise _refused(path, f"cannot be read: {why}; rtagent key generate makes it") from exc
    if mode & stat.S_IRWXO:
        raise _refused(path, "every user may read or write it: chmod o-rwx, or replace the key")
    named = _LINE.search(text)
    if named is None or not is_name(named[1]):
        rule = "has no line 'rtagent key NAME' before its PEM block: rtagent key generate writes it"
        raise _refused(path, rule)
    return PrivateKey(named[1], _loaded(path, text))


def _loaded(path: str, text: str) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise _refused(path, "is not a private key in PEM without a password") from exc
    if not isinstance(key, Ed25519PrivateKey):
        raise _refused(path, "is not an Ed25519 key: rtagent key generate makes one")
    return key


def _refused(path: str, rule: str) -> ConfigError:
    return ConfigError(group=GROUP, option="signing_key", value=path, rule=rule)
