"""The agent of a lab host: its read API and its database, without network."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

from lab.host import Host

DATABASE = "/var/lib/rtagent/rtagent.sqlite"
SOCKET = "/var/lib/rtagent/rtagent.sock"

# No library for HTTP: its import takes as long as everything else.
_GET = """
import socket, sys
agent = socket.socket(socket.AF_UNIX)
agent.connect(sys.argv[1])
agent.sendall(f"GET {sys.argv[2]} HTTP/1.0\\r\\n\\r\\n".encode())
sys.stdout.buffer.write(agent.makefile("rb").read().split(b"\\r\\n\\r\\n", 1)[1])
"""

_COPY = f"""
import base64, gzip, sqlite3
copy = sqlite3.connect("/tmp/copy.sqlite")
sqlite3.connect("{DATABASE}").backup(copy)
copy.close()
print(base64.b64encode(gzip.compress(open("/tmp/copy.sqlite", "rb").read(), 1)).decode())
"""


def get(host: Host, path: str, socket: str = SOCKET) -> str:
    """Return what the read API has at a path: ``/nodes``. :param socket: where it listens.

    :raises CommandFailed: the agent does not listen, or its answer is not whole.
    """
    return host.output("python3", "-I", "-S", "-c", _GET, socket, path)


def copy_database(host: Host, to: Path) -> None:
    """Write a copy of the database, as of one moment, to a file of this machine.

    :raises CommandFailed: it cannot be read.
    """
    to.write_bytes(gzip.decompress(base64.b64decode(host.output("python3", "-I", "-c", _COPY))))
