"""Peers: the processes at the other end of a unix socket, and which of them may read."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import struct
from collections.abc import Iterable, Sequence

from rtagent.errors import ConfigError
from rtagent.model.base import Value

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
