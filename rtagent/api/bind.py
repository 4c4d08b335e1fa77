"""Sockets to listen on."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from rtagent.api.address import LOOPBACK, Address, UnixAddress
from rtagent.errors import ConfigError

#: Who may connect to the unix socket: the agent's user and group.
MODE = 0o660

#: The longest path that the kernel takes for a unix socket, bytes (unix(7)).
MAX_PATH = 107


def bind(address: Address, backlog: int) -> socket.socket:
    """A listening socket.

    :raises ConfigError: the address cannot be had; says why.
    """
    try:
        if isinstance(address, UnixAddress):
            return _bind_unix(Path(address.path), backlog)
        return socket.create_server((LOOPBACK, address.port), backlog=backlog)
    except OSError as exc:
        raise _refused(address, f"cannot listen there: {exc.strerror or exc}") from exc


def _bind_unix(path: Path, backlog: int) -> socket.socket:
    """In the place of a socket that was left behind.

    It is made under another name and renamed: it never has wider permissions, and from the first
    moment that a client can find it, it is listened on.
    """
    if len(os.fsencode(path)) > MAX_PATH:
        raise _refused(UnixAddress(str(path)), f"a socket's path has at most {MAX_PATH} bytes")
    _check_abandoned(path)
    # A short name beside it: the path of a socket is limited in length.
    fresh = path.with_name(f".{os.getpid():x}")
    fresh.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(fresh))
        fresh.chmod(MODE)
        listening.listen(backlog)
        fresh.rename(path)
    except OSError:
        listening.close()
        fresh.unlink(missing_ok=True)
        raise
    return listening


def _check_abandoned(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    address = UnixAddress(str(path))
    if not stat.S_ISSOCK(mode):
        raise _refused(address, "the file there is not a socket: move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
    raise _refused(address, "another process listens there: stop it, or name another path")


def _refused(address: Address, rule: str) -> ConfigError:
    return ConfigError(group="api", option="address", value=str(address), rule=rule)
