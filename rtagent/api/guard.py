"""Guard: who may read, and how a connection over TCP is encrypted.

Peers are the processes at the other end of a unix socket.

Tokens: which bearer tokens may read over TCP.

A line of the file is ``NAME ROLE sha256:HEX``. Only the digest is stored. A token has 256 random
bits, so a fast digest suffices.
"""

import base64
import binascii
import grp
import hashlib
import hmac
import os
import pwd
import re
import secrets
import socket
import ssl
import stat
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from rtagent.api.address import Address, TcpAddress
from rtagent.conf.rpc import Api
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


#: ``struct ucred`` of `SO_PEERCRED`: pid, uid and gid.
_UCRED = struct.Struct("3i")
#: Linux's option for the other groups of the peer, which `socket` does not name; the size of a gid,
#: and the bytes of an answer, which `socket` limits.
_SO_PEERGROUPS, _GID, _MAX_ANSWER = 59, 4, 1024


class Peer(Value, frozen=True, kw_only=True):
    """A process, as it was when it connected. :ivar gids: all its groups."""

    pid: int
    uid: int
    gids: frozenset[int]


class Readers(Value, frozen=True, kw_only=True):
    """Who may read, besides root and the user of this process."""

    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()

    def allow(self, peer: Peer) -> bool:
        """Return whether a process may read."""
        own = peer.uid in (0, os.geteuid())
        return own or peer.uid in self.uids or not self.gids.isdisjoint(peer.gids)


def peer_of(connection: socket.socket) -> Peer:
    """Return the process at the other end of a unix socket. :raises OSError: it has gone."""
    answer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, gid = _UCRED.unpack(answer)
    return Peer(pid=pid, uid=uid, gids=frozenset({gid, *_groups(connection, uid, gid)}))


def read_names(names: Sequence[str] | None) -> Readers:
    """Return who the option ``readers`` names. :raises ConfigError: one does not exist.

    :param names: of users, and of groups after an ``@``; None: the group of this process.
    """
    if names is None:
        return Readers(gids=frozenset({os.getegid()}))
    users = (name for name in names if not name.startswith("@"))
    groups = (name[1:] for name in names if name.startswith("@"))
    return Readers(uids=frozenset(map(_uid, users)), gids=frozenset(map(_gid, groups)))


def _groups(connection: socket.socket, uid: int, gid: int) -> Iterable[int]:
    """Return the groups besides the first one; those of the user, if the process has very many."""
    try:
        answer = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MAX_ANSWER)
    except OSError:
        return _groups_of_user(uid, gid)
    return struct.unpack(f"{len(answer) // _GID}I", answer)


def _groups_of_user(uid: int, gid: int) -> Iterable[int]:
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except (KeyError, OSError):  # a user without a name has no other groups
        return ()


def _uid(name: str) -> int:
    try:
        return int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid
    except KeyError as error:
        raise _unknown(name, "user") from error


def _gid(name: str) -> int:
    try:
        return int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise _unknown(f"@{name}", "group") from error


def _unknown(value: str, what: str) -> ConfigError:
    rule = f"is not a {what} of this host: create it, or remove it from the list"
    return ConfigError(group="api", option="readers", value=value, rule=rule)


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
