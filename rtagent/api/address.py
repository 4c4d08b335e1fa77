"""The addresses of the read API, and the sockets that are bound to them."""

import os
import socket
import stat
from ipaddress import ip_address
from pathlib import Path

from rtagent.conf.rpc import Api
from rtagent.errors import ConfigError
from rtagent.identity.locks import weakness
from rtagent.model.base import Value

LOOPBACK = "127.0.0.1"

#: Mode of the unix socket: the agent's user and group may connect.
MODE = 0o660
#: Mode if an option names the readers: every user may connect, and others are refused then.
OPEN_MODE = 0o666

#: The longest path that Linux takes for a unix socket, bytes (unix(7)).
MAX_PATH = 107


class UnixAddress(Value, frozen=True):
    """A unix socket."""

    path: str

    def __str__(self) -> str:
        return self.path


class TcpAddress(Value, frozen=True):
    """A port of an interface; 0: any free one. :ivar host: an IP address."""

    port: int
    host: str = LOOPBACK

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this host can connect."""
        return ip_address(self.host).is_loopback


class HttpsAddress(Value, frozen=True):
    """Where a client connects with TLS. :ivar cafile: of the certificates that it trusts; None:
    those of the system.
    """

    host: str
    port: int
    cafile: str | None = None

    def __str__(self) -> str:
        return f"https://{self.host}:{self.port}"


Address = UnixAddress | TcpAddress


def parse_client(text: str, cafile: str | None = None) -> Address | HttpsAddress:
    """Parse where a client connects: as `parse`, or ``https://NAME:PORT``.

    :raises ConfigError:
    """
    if not text.startswith("https://"):
        return parse(text)
    host, _, port = text.removeprefix("https://").rstrip("/").rpartition(":")
    if not host or not is_port(port):
        rule = "must be https://NAME:PORT"
        raise ConfigError(group="api", option="address", value=text, rule=rule)
    return HttpsAddress(host.strip("[]"), int(port), cafile)


def parse(text: str, group: str = "api", option: str = "address") -> Address:
    """Parse an address: the absolute path of a socket, ``IPV4:PORT`` or ``[IPV6]:PORT``.

    :raises ConfigError: the text is neither; the error names the option.
    """
    if text.startswith("/"):
        return UnixAddress(text)
    host, _, port = text.rpartition(":")
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (":" in host) is not (inner != host) or not is_port(port) or not _is_ip(inner):
        raise ConfigError(
            group=group,
            option=option,
            value=text,
            rule=f"must be an absolute path or {LOOPBACK}:PORT (or another IP)",
        )
    return TcpAddress(int(port), inner)


def page_url(options: Api, host_ip: str) -> str:
    """Return the URL at which browsers reach the pages of an agent; "": other hosts cannot.

    :param host_ip: ``my_ip``, for an address that is every address of the host.
    """
    if options.page_url:
        return options.page_url
    address = parse(options.address)
    if isinstance(address, UnixAddress) or address.is_loopback or not address.port:
        return ""
    host = host_ip if ip_address(address.host).is_unspecified else address.host
    return f"https://{TcpAddress(address.port, host)}/"


def is_port(text: str) -> bool:
    """Return whether a text is the number of a port."""
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535


def _is_ip(text: str) -> bool:
    try:
        return "%" not in text and bool(ip_address(text).version)
    except ValueError:
        return False


def bind(address: Address, backlog: int, mode: int = MODE) -> socket.socket:
    """A listening socket.

    Written by hand, because waitress would remove any unix socket at the path, also that of a
    running process, and would restrict its mode only after clients can connect.

    :param backlog: connections that may wait to be accepted. :param mode: of a unix socket.
    :raises ConfigError: the address cannot be used; the message gives the reason.
    """
    try:
        if isinstance(address, UnixAddress):
            return _bind_unix(Path(address.path), backlog, mode)
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return socket.create_server((address.host, address.port), family=family, backlog=backlog)
    except OSError as exc:
        raise _refused(address, f"cannot listen there: {exc.strerror or exc}") from exc


def _bind_unix(path: Path, backlog: int, mode: int) -> socket.socket:
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
        fresh.chmod(mode)
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
