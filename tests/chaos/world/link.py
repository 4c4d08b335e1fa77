"""Links: TCP relays in front of a server, which can be cut, delayed and partitioned."""

import asyncio
import contextlib
import functools
import re
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Self

#: With this option a close sends RST, as the end of a broken connection does.
_RESET = struct.pack("ii", 1, 0)

#: Chunks that one direction of a connection may have under way; more wait in the sockets.
_UNDER_WAY = 256


class Link:
    """Relays connections to a port of this machine, until it is closed. Thread-safe.

    A link without a fault relays at once. `heal` ends every fault. Bytes are never lost in the
    middle of a connection, because TCP never loses them: what a partition or a delay keeps
    arrives later, or the connection ends.

    :ivar port: where clients connect.
    """

    def __init__(self, target: int) -> None:
        """:param target: the port of the server."""
        self._target = target
        self._loop = _loop()
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = listener.getsockname()[1]
        self._connections: set[_Connection] = set()
        self._refuses, self._delay = False, 0.0
        self._held: tuple[re.Pattern[bytes], threading.Event] | None = None
        # Set while the direction is relayed; cleared by a partition.
        self._to_server, self._to_client = asyncio.Event(), asyncio.Event()
        self._server = self._run(self._listen(listener))

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    # -- faults ------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Close every connection, and refuse new ones."""
        self._run(self._change(refuses=True, reset=True))

    def reset(self) -> None:
        """Close every connection; new ones are relayed."""
        self._run(self._change(reset=True))

    def swallow(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Relay nothing more in these directions: connections stay open, as in a partition.

        What is under way arrives after `heal`.
        """
        self._run(self._change(silent=(to_server, to_client)))

    def hold(self, pattern: re.Pattern[bytes]) -> threading.Event:
        """Relay nothing more to the server, from the next data on in which the pattern is found.

        :return: it is set when this has begun.
        """
        begun = threading.Event()
        self._held = pattern, begun
        return begun

    def delay(self, seconds: float) -> None:
        """Relay everything that much later, in both directions."""
        self._run(self._change(delay=seconds))

    def retarget(self, port: int) -> None:
        """Relay new connections to another server, and close those to the old one."""
        self._target = port
        self.reset()

    def heal(self) -> None:
        """End every fault."""
        self._held = None
        self._run(self._change(refuses=False, silent=(False, False), delay=0.0))

    # -- end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the port and every connection."""
        self._run(self._stop_listening())
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- in the loop -------------------------------------------------------------------------------

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _change(
        self,
        refuses: bool | None = None,
        reset: bool = False,
        silent: tuple[bool, bool] | None = None,
        delay: float | None = None,
    ) -> None:
        if refuses is not None:
            self._refuses = refuses
        if delay is not None:
            self._delay = delay
        if silent is not None:
            for direction, is_silent in zip(
                (self._to_server, self._to_client), silent, strict=True
            ):
                direction.clear() if is_silent else direction.set()
        if reset:
            for connection in self._connections:
                connection.reset()
            self._connections.clear()

    async def _listen(self, listener: socket.socket) -> asyncio.Server:
        self._to_server.set()
        self._to_client.set()
        return await asyncio.start_server(self._accept, sock=listener)

    async def _stop_listening(self) -> None:
        # In the loop: a connection that ends there at this moment counts the server's connections.
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            _reset(writer)
            return
        connection = _Connection(writer)
        self._connections.add(connection)
        try:
            await self._to_server.wait()  # a partition answers no new connection, either
            server = await asyncio.open_connection("127.0.0.1", self._target)
            connection.add(server[1])
            async with asyncio.TaskGroup() as group:
                self._relay(group, reader, server[1], self._to_server)
                self._relay(group, server[0], writer, self._to_client)
        except* (OSError, asyncio.CancelledError):
            connection.reset()
        finally:
            self._connections.discard(connection)
            connection.close()

    def _relay(
        self,
        group: asyncio.TaskGroup,
        source: asyncio.StreamReader,
        to: asyncio.StreamWriter,
        relayed: asyncio.Event,
    ) -> None:
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)

        async def read() -> None:
            data = b"-"
            while data:
                data = await source.read(65536)
                if relayed is self._to_server and self._held is not None:
                    pattern, begun = self._held
                    if pattern.search(data):
                        relayed.clear()
                        begun.set()
                await chunks.put((self._loop.time(), data))

        async def write() -> None:
            while True:
                since, data = await chunks.get()
                while (rest := since + self._delay - self._loop.time()) > 0:
                    await asyncio.sleep(min(rest, 0.1))  # the delay may end before
                await relayed.wait()
                if not data:
                    to.write_eof()
                    return
                to.write(data)
                await to.drain()

        group.create_task(read())
        group.create_task(write())


class _Connection:
    """The ends of one relayed connection, and the task that relays it."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self._task = asyncio.current_task()
        self._ends = [client]

    def add(self, server: asyncio.StreamWriter) -> None:
        self._ends.append(server)

    def reset(self) -> None:
        for writer in self._ends:
            _reset(writer)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def close(self) -> None:
        for writer in self._ends:
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    end = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all links, in a thread that ends with the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="links", daemon=True).start()
    return loop
