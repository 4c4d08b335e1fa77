"""Deployment of an agent without a message bus, in a child process."""

import itertools
import os
import signal
import threading
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.crash.agent_process import run_agent
from tests.crash.host import PLAIN, Site
from tests.servers.forked import processes
from tests.support.workload.caller import Lost
from tests.support.workload.deployment import PATIENCE, Domains


class ChildHome:
    """Deployment of an agent without a message bus (`agent_process`)."""

    def __init__(self, directory: Path, url: str, site: Site = PLAIN) -> None:
        self.url, self.kills, self.vcpus = url, 0, len(site.topology.cpus)
        self._site, self.host = site, site.node.host
        self._directory, self._reserve = directory, 0
        self._domains: Domains = {}
        self._running: _Process | None = None

    def start(self, failpoint: str = "") -> bool:
        self._running = _Process(
            self._site, self.url, str(self._directory), failpoint, self._domains, self._reserve
        )
        try:
            self._running.started.result(PATIENCE)
        except Lost:
            self.kills += 1
            return False
        return True

    def invoke(self, method: str, **document: Any) -> Any:
        if self._running is None:
            raise Lost
        return self._running.ask(method, document).result(PATIENCE)

    def ask(self, method: str, **document: Any) -> Any:
        return self.invoke(method, **document)

    def set_domains(self, domains: Domains) -> None:
        self._domains = domains
        self.invoke("set_domains", domains=domains)

    def set_reserve(self, memory_mb: int) -> None:
        self._reserve = memory_mb
        if self._running is not None and self._running.process.is_alive():
            self.invoke("set_reserve", memory_mb=memory_mb)

    def wait_policy(self) -> None:
        """The policy is written before the start has ended."""

    def kill(self) -> None:
        assert self._running is not None
        os.kill(self._running.process.pid, signal.SIGKILL)
        self.wait_died()

    def wait_died(self) -> None:
        assert self._running is not None
        self._running.process.join(PATIENCE)
        assert self._running.process.exitcode == -signal.SIGKILL
        self._running.ended.wait(PATIENCE)
        self.kills += 1

    def close(self) -> None:
        if self._running is not None and self._running.process.is_alive():
            self.kill()


class _Process:
    """One agent process, and the calls that it has not answered yet."""

    def __init__(self, *arguments: Any) -> None:
        self._pipe, theirs = processes.Pipe()
        self.process = processes.Process(target=run_agent, args=(theirs, *arguments), daemon=True)
        self._numbers = itertools.count(1)
        self.started: Future[Any] = Future()
        self.ended = threading.Event()
        self._asked = {0: self.started}
        self._lock = threading.Lock()
        self.process.start()
        theirs.close()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self, order: str, document: dict[str, Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            if self.ended.is_set():
                raise Lost
            self._asked[number] = future
            try:
                self._pipe.send((number, order, document))
            except OSError as error:
                raise Lost from error
        return future

    def _listen(self) -> None:
        while (reply := _received(self._pipe)) is not None:
            number, kind, *rest = reply
            with self._lock:
                future = self._asked.pop(number)
            if kind == "answer":
                future.set_result(rest[0])
            elif kind == "error":
                future.set_exception(rest[0](**rest[1]))
            else:
                future.set_exception(AssertionError(rest[0]))
        with self._lock:
            self.ended.set()
            asked, self._asked = self._asked, {}
        for future in asked.values():
            future.set_exception(Lost())


def _received(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None
