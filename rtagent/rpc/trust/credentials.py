"""Credentials: the key that signs the calls and replies of a transport, and the keys that verify
the replies that it gets.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import oslo_messaging
from oslo_context.context import RequestContext
from oslo_log import log

from rtagent.errors import ConfigError
from rtagent.rpc.context import OutgoingContext, Proof
from rtagent.rpc.trust.keys import KeyRing, read_ring
from rtagent.rpc.trust.private_key import PrivateKey, read_private_key
from rtagent.rpc.trust.token import CallClaims, arguments_digest

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
