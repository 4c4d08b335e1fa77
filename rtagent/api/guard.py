"""Guard: who may read, and how a connection over TCP is encrypted."""

from __future__ import annotations

import ssl

from rtagent.api.address import Address, TcpAddress
from rtagent.api.peers import Peer, read_names
from rtagent.api.tokens import Token, allows, read_tokens
from rtagent.conf.api import Api
from rtagent.errors import ConfigError

#: Names of this host by which a browser may reach a loopback address.
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """TLS and tokens of a TCP address, and the readers of a unix socket.

    Thread-safe. :ivar tls: None: connections are not encrypted. :ivar is_open: whether every local
    user may open the unix socket, because the option names its readers.
    """

    def __init__(
        self, address: Address, options: Api, group: str = "api", option: str = "address"
    ) -> None:
        """:param group: and :param option: those of the address, for the message.
        :raises ConfigError: other hosts could read without a token, or see what is read.
        """
        self._over_tcp = isinstance(address, TcpAddress)
        self._names = LOCAL_NAMES
        if isinstance(address, TcpAddress):
            self._names |= {address.host}
        _check(address, options, group, option)
        self.tls = self._context(options)
        self._tokens = self._read(options)
        self._readers = read_names(options.readers)
        self.is_open = options.readers is not None

    def allows_peer(self, peer: Peer | None) -> bool:
        """Return whether a process may read. :param peer: None: it is connected over TCP."""
        return peer is None or self._readers.allow(peer)

    def allows(self, authorization: str) -> bool:
        """Return whether a request with this ``Authorization`` header is answered."""
        return self._tokens is None or allows(self._tokens, authorization)

    def is_name(self, host: str) -> bool:
        """Return whether a request with this ``Host`` header may be answered.

        Without tokens, a page of another server could otherwise read through a browser of this
        host, by a name that it has resolved to a loopback address. Browsers always send the header.
        """
        if not self._over_tcp or self._tokens is not None or not host:
            return True
        name, separator, port = host.rpartition(":")
        if not separator or port.endswith("]"):
            name = host
        return name.removeprefix("[").removesuffix("]").lower() in self._names

    def reload(self, options: Api) -> None:
        """Read the certificate, the tokens and the readers again.

        :raises ConfigError: nothing was changed.
        """
        tokens, tls = self._read(options), self._context(options)
        readers = read_names(options.readers)
        self._tokens, self.tls = tokens, tls
        self._readers, self.is_open = readers, options.readers is not None

    def _context(self, options: Api) -> ssl.SSLContext | None:
        if not self._over_tcp or not options.tls_cert:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(options.tls_cert, options.tls_key)
        except (OSError, ssl.SSLError) as exc:
            value = f"{options.tls_cert}, tls_key = {options.tls_key}"
            rule = f"cannot be used: {exc.strerror or exc}; both are PEM files, without a password"
            raise ConfigError(group="api", option="tls_cert", value=value, rule=rule) from exc
        return context

    def _read(self, options: Api) -> tuple[Token, ...] | None:
        if not self._over_tcp or not options.tokens_file:
            return None
        return read_tokens(options.tokens_file)


def _check(address: Address, options: Api, group: str, option: str) -> None:
    if bool(options.tls_cert) is not bool(options.tls_key):
        given, other = ("tls_cert", "tls_key") if options.tls_cert else ("tls_key", "tls_cert")
        value = getattr(options, given)
        raise ConfigError(group="api", option=given, value=value, rule=f"needs {other} as well")
    if not isinstance(address, TcpAddress) or address.is_loopback:
        return
    missing = [n for n in ("tls_cert", "tls_key", "tokens_file") if not getattr(options, n)]
    if missing:
        raise ConfigError(
            group=group,
            option=option,
            value=str(address),
            rule=f"can be reached from other hosts, so [api] {', '.join(missing)} must be set; or"
            " use a unix socket, or 127.0.0.1:PORT",
        )
