"""The addresses of the read API, and the sockets that are bound to them."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from rtagent.errors import ConfigError
from rtagent.identity.directories import weakness
from rtagent.model.base import Value

LOOPBACK = "127.0.0.1"

#: Mode of the unix socket: the agent's user and group may connect.
MODE = 0o660

#: The longest path that Linux takes for a unix socket, bytes (unix(7)).
MAX_PATH = 107


class UnixAddress(Value, frozen=True):
    """A unix socket."""

    path: str

    def __str__(self) -> str:
        return self.path


class TcpAddress(Value, frozen=True):
    """A port of the loopback interface; 0: any free one."""

    port: int

    def __str__(self) -> str:
        return f"{LOOPBACK}:{self.port}"


Address = UnixAddress | TcpAddress


def parse(text: str) -> Address:
    """Parse an address: the absolute path of a socket, or ``127.0.0.1:PORT``.

    :raises ConfigError: the text is neither.
    """
    if text.startswith("/"):
        return UnixAddress(text)
    host, _, port = text.rpartition(":")
    if host != LOOPBACK or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigError(
            group="api",
            option="address",
            value=text,
            rule=f"must be an absolute path or {LOOPBACK}:PORT",
        )
    return TcpAddress(int(port))


def bind(address: Address, backlog: int) -> socket.socket:
    """A listening socket.

    Written by hand, because waitress would remove any unix socket at the path, also that of a
    running process, and would restrict its mode only after clients can connect.

    :param backlog: connections that may wait to be accepted.
    :raises ConfigError: the address cannot be used; the message gives the reason.
    """
    try:
        if isinstance(address, UnixAddress):
            return _bind_unix(Path(address.path), backlog)
        return socket.create_server((LOOPBACK, address.port), backlog=backlog)
    except OSError as exc:
        raise _refused(address, f"cannot listen there: {exc.strerror or exc}") from exc


def _bind_unix(path: Path, backlog: int) -> socket.socket:
    """Replace a socket that a process left when it ended.

    The new socket is made under another name and then renamed. So its mode is never wider, and a
    client that finds the socket can connect to it.
    """
    if len(os.fsencode(path)) > MAX_PATH:
        raise _refused(UnixAddress(str(path)), f"a socket's path has at most {MAX_PATH} bytes")
    if why := weakness(path.parent):
        raise _refused(UnixAddress(str(path)), f"another process could take its place: {why}")
    _check_abandoned(path)
    # A short name in the same directory: the length of a socket's path is limited.
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
