"""Signatures of calls and replies: what they cover, and their text on the wire."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from rtagent.model.base import Value
from rtagent.rpc.trust.private_key import PrivateKey

if TYPE_CHECKING:  # see `keys`
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

#: The beginnings of what is signed, so that no signature is valid for another purpose or version.
_CALL, _REPLY = b"rtagent call 1\n", b"rtagent reply 1\n"
#: The most characters of a signature on the wire: the name of a server has 255 at most.
MAX_LENGTH = 1024


class CallText(Value, frozen=True, kw_only=True):
    """What the signature of a call covers.

    :ivar topic: of the servers. :ivar server: the host; "": any server of the topic.
    :ivar operation_id: "": the method has none. :ivar digest: of the arguments.
    :ivar nonce: that the signature of the reply covers, too; "": none is wanted.
    :ivar key: the name of the caller's key. :ivar issued_at: milliseconds since 1970, in UTC.
    :ivar attempt: a random text, so that no two attempts have the same signature. A server refuses
        a call with the signature of another as a copy.
    """

    topic: str
    method: str
    server: str
    operation_id: str
    digest: str
    nonce: str
    key: str
    issued_at: int
    attempt: str

    def encoded(self) -> bytes:
        """Return the bytes that are signed. Different values never have the same bytes."""
        return _CALL + msgspec.json.encode(msgspec.structs.astuple(self))


class ReplyText(Value, frozen=True, kw_only=True):
    """What the signature of a reply covers. :ivar digest: of the call's arguments.
    :ivar nonce: of the call. :ivar key: the name of the server's key.
    :ivar body: the reply, or the error.
    """

    topic: str
    method: str
    digest: str
    nonce: str
    key: str
    body: str

    def encoded(self) -> bytes:
        """Return the bytes that are signed."""
        return _REPLY + msgspec.json.encode(msgspec.structs.astuple(self))


class Signature(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The signature of a call, in the context of the call.

    :ivar value: the signature, in base64. The other fields are those of `CallText`.
    """

    version: Literal[1]
    key: str
    issued_at: int
    server: str
    value: str
    attempt: str

    def text(self) -> str:
        """Return the text on the wire."""
        return msgspec.json.encode(self).decode()


# msgspec examines a type at its first use, which must not happen in two threads at once.
_decoder = msgspec.json.Decoder(Signature)
_decode = msgspec.json.Decoder().decode


def parse_signature(text: str) -> Signature:
    """Return the signature that a text is. :raises ValueError: it is none."""
    if len(text) > MAX_LENGTH:
        raise ValueError("it is too long")
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as exc:
        raise ValueError(str(exc)) from exc


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
    except (TypeError, OverflowError, UnicodeEncodeError, msgspec.MsgspecError) as exc:
        raise ValueError(str(exc)) from exc
    if b"null" in encoded and not _is_finite(document):
        raise ValueError("a number is infinite, or is not a number (NaN)")
    return hashlib.sha256(encoded).hexdigest()


def _is_finite(document: object) -> bool:
    """Return whether all numbers in a document are finite."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if isinstance(value, Mapping):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
    return True


def milliseconds(time: datetime) -> int:
    """Return a time as `CallText` has it."""
    return round(time.timestamp() * 1000)


def sign(key: PrivateKey, text: CallText) -> str:
    """Return the signature of a call as the context has it."""
    return Signature(
        version=1,
        key=text.key,
        issued_at=text.issued_at,
        server=text.server,
        value=base64.b64encode(key.sign(text.encoded())).decode(),
        attempt=text.attempt,
    ).text()


def is_genuine(key: Ed25519PublicKey, text: CallText | ReplyText, value: str) -> bool:
    """Return whether a signature in base64 is that of a text by the private key of `key`."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(base64.b64decode(value, validate=True), text.encoded())
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True
