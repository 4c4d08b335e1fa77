"""A relay in front of a libvirt daemon that changes what is answered."""

import contextlib
import socket
import struct
import threading
from collections.abc import Mapping
from pathlib import Path

#: Length, program, version, procedure, type, serial and status of a message of libvirt's RPC
#: protocol.
_HEADER = struct.Struct(">IIIiiIi")


def refusal(call: bytes, code: int, domain: int, message: str) -> bytes:
    """Return the answer to a call that raises an error in the client.

    :param code: and domain: libvirt's numbers, VIR_ERR_ and VIR_FROM_.
    """
    _, program, version, procedure, _, serial, _ = _HEADER.unpack_from(call)
    text = message.encode()
    body = struct.pack(">iiII", code, domain, 1, len(text)) + text + b"\0" * (-len(text) % 4)
    # The level of an error, no domain, no further texts, two numbers, no network.
    body += struct.pack(">iIIIIiiI", 2, 0, 0, 0, 0, -1, -1, 0)
    return _HEADER.pack(_HEADER.size + len(body), program, version, procedure, 1, serial, 1) + body


class LibvirtRelay:
    """Relays connections from a UNIX socket to that of a daemon, until it is closed.

    :ivar replaced: texts of the daemon, and as long ones that clients get instead.
    """

    def __init__(self, path: Path, target: Path) -> None:
        self.replaced: Mapping[bytes, bytes] = {}
        self._target = str(target)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def answer(self, client: socket.socket, procedure: int, call: bytes) -> bytes | None:
        """Return the answer to a call; None: the daemon answers it."""
        return None

    def close(self) -> None:
        """Accept no further connection."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with client, server, contextlib.suppress(OSError, struct.error):
            server.connect(self._target)
            threading.Thread(target=self._return, args=(server, client), daemon=True).start()
            while True:
                call = _message(client)
                answer = self.answer(client, _HEADER.unpack_from(call)[3], call)
                if answer is None:
                    server.sendall(call)
                else:
                    client.sendall(answer)

    def _return(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error):
            while True:
                message = _message(server)
                for old, new in self.replaced.items():
                    message = message.replace(old, new)
                client.sendall(message)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _message(source: socket.socket) -> bytes:
    """Return the next message. :raises struct.error: the connection has ended."""
    size = source.recv(4, socket.MSG_WAITALL)
    return size + source.recv(struct.unpack(">I", size)[0] - 4, socket.MSG_WAITALL)
