"""Credentials: the key that signs the calls and replies of a transport, and the keys that verify
the replies that it gets. PrivateKey: the JSON Web Key (RFC 7517) that signs.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

import msgspec
import oslo_messaging
from msgspec import Meta
from oslo_context.context import RequestContext
from oslo_log import log

from rtagent.conf.rpc import GROUP
from rtagent.errors import ConfigError
from rtagent.model.base import Converter, Value
from rtagent.rpc.context import OutgoingContext, Proof
from rtagent.rpc.trust.keys import (
    COORDINATE,
    GENERATE,
    NAME,
    KeyRing,
    PublicKey,
    json_of,
    read_file,
    read_ring,
)
from rtagent.rpc.trust.token import CallClaims, ReplyClaims, arguments_digest, sign

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


LOG = log.getLogger(__name__)


class Credentials:
    """Thread-safe.

    :ivar key: signs; None: nothing is signed. :ivar ring: verifies replies.
    """

    def __init__(self, conf: Any) -> None:
        """:param conf: that of a transport. :raises ConfigError: a file of a key is wrong."""
        self._conf = conf
        self.key, self.ring = self._read()

    @property
    def verify_replies(self) -> bool:
        """Whether replies must be signed, unless the client says it."""
        return bool(self._conf.rpc.verify_replies)

    def reload(self) -> None:
        """Read the files again. While one is wrong, the known keys stay in use."""
        try:
            self.key, self.ring = self._read()
        except ConfigError as error:
            LOG.error("the known keys stay in use: %s", error)

    def proved(
        self,
        context: RequestContext,
        topic: str,
        server: str,
        method: str,
        document: Mapping[str, Any],
        nonce: str = "",
    ) -> OutgoingContext:
        """Return the context of one attempt of a call, with its proof.

        :param server: the host; "": any server of the topic.
        :param nonce: see `Proof`. :param document: the arguments.
        """
        key = self.key
        if key is None:
            return OutgoingContext(context, Proof(nonce=nonce))
        claims = CallClaims(
            aud=f"{topic}.{server}" if server else topic,
            method=method,
            digest=arguments_digest(document),
            nonce=nonce,
            iat=round(time.time(), 3),
            jti=secrets.token_hex(8),
        )
        return OutgoingContext(context, Proof(signature=key.token(claims), nonce=nonce))

    def _read(self) -> tuple[PrivateKey | None, KeyRing]:
        path = self._conf.rpc.signing_key
        key = None if path is None else read_private_key(path)
        return key, read_ring(self._conf.rpc.keys_file)


_credentials: WeakKeyDictionary[oslo_messaging.RPCTransport, Credentials] = WeakKeyDictionary()
_lock = threading.Lock()


def credentials(transport: oslo_messaging.RPCTransport) -> Credentials:
    """Return the credentials of a transport, which its clients and servers share.

    :raises ConfigError: a file of a key is wrong.
    """
    with _lock:
        known = _credentials.get(transport)
        if known is None:
            known = _credentials[transport] = Credentials(transport.conf)
        return known


def reload_credentials() -> None:
    """Read the files of keys again, for every transport of this process."""
    with _lock:
        known = list(_credentials.values())
    for each in known:
        each.reload()
