"""PrivateKey: the JSON Web Key (RFC 7517) that signs the calls and replies of one program."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rtagent.conf.rpc import GROUP
from rtagent.errors import ConfigError
from rtagent.model.base import Converter, Value
from rtagent.rpc.trust.keys import COORDINATE, GENERATE, NAME, PublicKey, json_of, read_file
from rtagent.rpc.trust.token import CallClaims, ReplyClaims, sign

#: The size of a file in bytes.
MAX_SIZE = 2**16


class _Jwk(Value, frozen=True, kw_only=True):
    """:ivar d: the secret. Other members, which other programs write, are ignored."""

    kid: Annotated[str, Meta(pattern=NAME)]
    kty: Literal["OKP"]
    crv: Literal["Ed25519"]
    x: Annotated[str, Meta(pattern=COORDINATE)]
    d: Annotated[str, Meta(pattern=COORDINATE)]


_keys = Converter(_Jwk)


class PrivateKey:
    """:ivar name: of the key in the keys file. :ivar public_key: as the keys file has it."""

    def __init__(self, jwk: _Jwk) -> None:
        """:raises jwt.InvalidKeyError: the public key is not that of the secret."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from jwt.algorithms import OKPAlgorithm

        key = OKPAlgorithm.from_jwk(msgspec.structs.asdict(jwk))
        assert isinstance(key, Ed25519PrivateKey)
        self.name, self.public_key = jwk.kid, jwk.x
        self._jwk, self._key = jwk, key

    @classmethod
    def generate(cls, name: str) -> PrivateKey:
        """Return a new key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from jwt.algorithms import OKPAlgorithm

        made = OKPAlgorithm.to_jwk(Ed25519PrivateKey.generate(), as_dict=True)
        return cls(_keys.convert({**made, "kid": name}))

    def public(
        self, roles: Sequence[str], times: tuple[datetime, datetime], host: str | None = None
    ) -> PublicKey:
        """Return the entry for the keys file. :param times: from when, and until when it is valid.
        :param host: see `PublicKey`.
        """
        return PublicKey(
            name=self.name,
            kty=self._jwk.kty,
            crv=self._jwk.crv,
            public_key=self.public_key,
            roles=tuple(roles),
            not_before=times[0],
            not_after=times[1],
            host=host,
        )

    def text(self) -> str:
        """Return the text of the file, which is a secret."""
        return msgspec.json.format(msgspec.json.encode(self._jwk)).decode() + "\n"

    def token(self, claims: CallClaims | ReplyClaims) -> str:
        """Return the token that proves a call or a reply."""
        return sign(self.name, self._key, claims)


def read_private_key(path: str) -> PrivateKey:
    """Return the key of a file. :raises ConfigError: it names the path, the rule and the remedy."""
    try:
        text = read_file(path, MAX_SIZE, GENERATE, secret=True)
    except ValueError as exc:
        raise _refused(path, str(exc)) from exc
    from jwt import InvalidKeyError

    try:
        return PrivateKey(_keys.convert(json_of(text)))
    except (ValueError, msgspec.ValidationError, InvalidKeyError) as exc:
        rule = f"is not an Ed25519 key as a JSON Web Key: {exc}; rtagent key generate makes one"
        raise _refused(path, rule) from exc


def _refused(path: str, rule: str) -> ConfigError:
    return ConfigError(group=GROUP, option="signing_key", value=path, rule=rule)
