"""ReadAPI: the server of the read API."""

from __future__ import annotations

import contextlib
import os
import threading

from rtagent.api.address import Address, TcpAddress, UnixAddress
from rtagent.api.listener import Listener
from rtagent.api.sources import Sources
from rtagent.ports import Reporter, Silence

#: Seconds that a client has to send its request, and again to take the answer.
PATIENCE = 5.0


class ReadAPI:
    """JSON over HTTP from the published snapshot, at one address."""

    def __init__(
        self,
        address: Address,
        sources: Sources,
        reporter: Reporter | None = None,
        *,
        patience: float = PATIENCE,
    ) -> None:
        self._address, self._sources = address, sources
        self._reporter = reporter or Silence()
        self._patience = patience
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None
        self._inode = 0

    @property
    def address(self) -> Address:
        """Where it listens; once started, a port 0 is the one that was found."""
        if self._listener is None or isinstance(self._address, UnixAddress):
            return self._address
        return TcpAddress(self._listener.socket.getsockname()[1])

    def start(self) -> None:
        """Listen and serve.

        :raises ConfigError: the address cannot be had.
        """
        self._listener = Listener(self._address, self._sources, self._reporter, self._patience)
        if isinstance(self._address, UnixAddress):
            self._inode = os.stat(self._address.path).st_ino
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.1,), name="read-api", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Listen no more, and answer what has been asked. Idempotent."""
        listener, self._listener = self._listener, None
        if listener is None or self._thread is None:
            return
        listener.shutdown()
        self._thread.join()
        self._unlink()
        listener.server_close()

    def _unlink(self) -> None:
        """Only our own socket: another agent may have put its own in the place."""
        if isinstance(self._address, UnixAddress):
            with contextlib.suppress(FileNotFoundError):
                if os.stat(self._address.path).st_ino == self._inode:
                    os.unlink(self._address.path)
