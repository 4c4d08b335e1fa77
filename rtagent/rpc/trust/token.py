"""Tokens: the proofs of calls and of replies, JSON Web Signatures (RFC 7515) by Ed25519 keys."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from rtagent.rpc.schemas import levels

if TYPE_CHECKING:  # see `keys`
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

#: The types of tokens, which their headers name: none is valid for another purpose.
CALL, REPLY = "rtagent-call+jwt", "rtagent-reply+jwt"
_ALGORITHM = "EdDSA"


class CallClaims(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the token of a call says.

    :ivar aud: the topic of the servers; with ``.HOST``, of one server alone.
    :ivar digest: of the arguments. :ivar nonce: that the token of the reply has, too; "": none is
        wanted. :ivar iat: when it was made, in seconds since 1970, in UTC.
    :ivar jti: a random text, so that no two attempts have the same token. A server refuses a call
        with the token of another as a copy.
    """

    aud: str
    method: str
    digest: str
    nonce: str
    iat: float
    jti: str

    @property
    def issued_at(self) -> int:
        """`iat` in milliseconds."""
        return round(self.iat * 1000)


class ReplyClaims(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the token of a reply says.

    :ivar aud: the topic of the servers. :ivar digest: of the call's arguments.
    :ivar nonce: of the call. :ivar body: the SHA-256 of the reply, which is beside the token.
    """

    aud: str
    method: str
    digest: str
    nonce: str
    body: str


_T = TypeVar("_T", CallClaims, ReplyClaims)
_TYPES: Mapping[type[Any], str] = {CallClaims: CALL, ReplyClaims: REPLY}
# msgspec examines a type at its first use, which must not happen in two threads at once.
_decoders = {type_: msgspec.json.Decoder(type_) for type_ in _TYPES}
_decode = msgspec.json.Decoder().decode


def sign(name: str, key: Ed25519PrivateKey, claims: CallClaims | ReplyClaims) -> str:
    """Return a token. :param name: of the key."""
    from jwt import api_jws

    headers = {"kid": name, "typ": _TYPES[type(claims)]}
    return api_jws.encode(msgspec.json.encode(claims), key, _ALGORITHM, headers)


def key_name(token: str) -> str:
    """Return the name of the key that a token names, which proves nothing.

    :raises ValueError: it is no token.
    """
    from jwt import InvalidTokenError, api_jws

    header, _, _ = token.partition(".")
    try:  # without the rest, which `proved` decodes
        name = api_jws.get_unverified_header(f"{header}..").get("kid")
    except InvalidTokenError as error:
        raise ValueError(str(error)) from error
    if not isinstance(name, str):
        raise ValueError("it names no key")
    return name


def proved(token: str, key: Ed25519PublicKey, type_: type[_T]) -> _T:
    """Return what a token says. :raises ValueError: it is not one of this type, by this key."""
    from jwt import InvalidTokenError, api_jws

    try:
        found = api_jws.decode_complete(token, key, algorithms=[_ALGORITHM])
        if found["header"].get("typ") != _TYPES[type_]:
            raise ValueError("it is for another purpose")
        claims: _T = _decoders[type_].decode(found["payload"])
    except (InvalidTokenError, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error
    return claims


def arguments_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of arguments: the same one for each order of their keys.

    :raises ValueError: a value has no form in JSON. An infinite number has none, and would have the
        digest of null.
    """
    try:
        try:
            encoded = msgspec.json.encode(document, order="sorted")
        except TypeError:  # a key is a number, which the receiver gets as text
            primitives = _decode(msgspec.json.encode(document))
            encoded = msgspec.json.encode(primitives, order="sorted")
    except (TypeError, OverflowError, RecursionError, ValueError, msgspec.MsgspecError) as exc:
        raise ValueError(str(exc)) from exc
    if b"null" in encoded and not _is_finite(document):
        raise ValueError("a number is infinite, or is not a number (NaN)")
    return hashlib.sha256(encoded).hexdigest()


def _is_finite(document: object) -> bool:
    """Return whether all numbers in a document are finite."""
    values = (value for level in levels(document) for value in level)
    return all(math.isfinite(value) for value in values if isinstance(value, float))
