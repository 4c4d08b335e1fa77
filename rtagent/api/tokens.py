"""Tokens: which bearer tokens may read over TCP.

A line of the file is ``NAME ROLE sha256:HEX``. Only the digest is stored. A token has 256 random
bits, so a fast digest suffices.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stat
from pathlib import Path

from rtagent.errors import ConfigError
from rtagent.model.base import Value

#: What a role may do. Over TCP there are reads only, which both may do.
ROLES = ("reader", "operator")
#: The beginning of every token, by which it is recognised where it should not be.
PREFIX = "rtagent_"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Token(Value, frozen=True, kw_only=True):
    """The record of a token. :ivar digest: ``sha256:`` and 64 digits."""

    name: str
    role: str
    digest: str

    def line(self) -> str:
        """Return the line of the file."""
        return f"{self.name} {self.role} {self.digest}\n"


def new_token(name: str, role: str) -> tuple[str, Token]:
    """Return a new token, and its record."""
    text = PREFIX + secrets.token_urlsafe(32)
    return text, Token(name=name, role=role, digest=digest(text))


def digest(token: str) -> str:
    """Return the digest of a token."""
    return f"sha256:{hashlib.sha256(token.encode(errors='replace')).hexdigest()}"


def presented(authorization: str) -> str | None:
    """Return the token of an ``Authorization`` header: a bearer token, or the password that a
    browser asks for. None: there is none.
    """
    scheme, _, text = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return text.strip()
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(text, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return None


def allows(tokens: tuple[Token, ...], authorization: str) -> bool:
    """Return whether a header has one of these tokens, in a time that does not depend on which."""
    text = presented(authorization)
    if text is None:
        return False
    found, mine = False, digest(text)
    for each in tokens:
        found |= hmac.compare_digest(each.digest, mine)
    return found


def read_tokens(path: str) -> tuple[Token, ...]:
    """Return the tokens of a file. :raises ConfigError: names the file and the line."""
    try:
        mode, lines = Path(path).stat().st_mode, Path(path).read_text().splitlines()
    except (OSError, UnicodeError) as exc:
        why = getattr(exc, "strerror", None) or str(exc)
        raise _refused(path, f"cannot be read: {why}; rtagent token create makes it") from exc
    if mode & stat.S_IWOTH:
        raise _refused(path, "every user may write it: chmod o-w")
    tokens = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        if (
            len(words) != 3
            or not is_name(words[0])
            or words[1] not in ROLES
            or not _DIGEST.fullmatch(words[2])
        ):
            roles = " or ".join(ROLES)
            raise _refused(path, f"line {number} is not NAME ROLE sha256:HEX, with ROLE {roles}")
        tokens.append(Token(name=words[0], role=words[1], digest=words[2]))
    return tuple(tokens)


def is_name(text: str) -> bool:
    """Return whether a token may have this name."""
    return _NAME.fullmatch(text) is not None


def _refused(path: str, rule: str) -> ConfigError:
    return ConfigError(group="api", option="tokens_file", value=path, rule=rule)
