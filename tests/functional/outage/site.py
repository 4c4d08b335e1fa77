"""A site: a daemon, its callers, and what must hold when an outage is over."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from rtagent.errors import RtAgentError
from tests.servers import Server
from tests.servers.daemon import wait_until
from tests.support.workload.caller import Stream
from tests.support.workload.checker import Checker, Record, held, open_plain, read, shown
from tests.support.workload.deployment import DaemonHome

LOG = logging.getLogger(__name__)

#: Seconds; nothing in these tests takes that long.
PATIENCE = 180.0
#: Seconds that a caller waits before each call. Without, callers use the CPUs as long as an outage
#: lasts.
PAUSE = 0.1


def outages(server: Server) -> Iterator[contextlib.AbstractContextManager[None]]:
    """Yield two outages, each for the length of its block: power failure, hang."""
    yield _outage(server, server.kill, server.start)
    yield _outage(server, server.freeze, server.thaw)


def shutdown(server: Server) -> contextlib.AbstractContextManager[None]:
    """Return an outage in which the server is stopped in order."""
    return _outage(server, server.stop, server.start)


@contextlib.contextmanager
def _outage(
    server: Server, begin: Callable[[], object], end: Callable[[], object]
) -> Iterator[None]:
    LOG.info("%s: %s", server.name, begin.__name__)
    begin()
    try:
        yield
    finally:
        end()


class Unhurried:
    """Calls of a daemon that do not follow each other at once."""

    def __init__(self, home: DaemonHome) -> None:
        self._home = home

    def invoke(self, method: str, **document: Any) -> Any:
        time.sleep(PAUSE)
        return self._home.invoke(method, **document)


class Site:
    """A running daemon."""

    def __init__(self, home: DaemonHome) -> None:
        self.home = home
        assert home.start()
        self.checker = Checker(home.url, vcpus=home.vcpus)
        self._plain = open_plain(home.url)

    def stream(self, seed: object) -> Stream:
        """Return eight callers."""
        return Stream(Unhurried(self.home), seed)

    def checks(self) -> dict[str, str]:
        """Return the health of the daemon's parts."""
        checks = self.home.daemon.read("health")["checks"]
        return {part: each[0]["status"] for part, each in checks.items()}

    def wait_ill(self, part: str) -> None:
        """Wait until the daemon reports that something is wrong with that part."""
        wait_until(lambda: self.checks().get(part) in ("warn", "fail"), PATIENCE)

    def wait_well(self) -> None:
        """Wait until the daemon has recovered by itself: it grants claims, every part passes."""
        wait_until(self._well, PATIENCE)

    def ready(self) -> bool:
        """Return whether the daemon grants claims."""
        try:
            return bool(self.home.daemon.read("ready")["ready"])
        except RtAgentError:
            return False

    def _well(self) -> bool:
        stale = self.home.daemon.read("nodes")["stale"]
        return self.ready() and not stale and set(self.checks().values()) == {"pass"}

    def record(self) -> Record:
        """Return what the database contains."""
        return read(self._plain)

    def confirm(self, stream: Stream) -> None:
        """Assert that nothing acknowledged is lost, and that nothing was granted twice."""
        self.checker.check(stream.ledger)
        answer = self.home.invoke("get_claims_for_host")
        assert shown(answer["claims"]) == held(stream.ledger)
        assert not answer["stale"]

    def close(self) -> None:
        self.checker.close()
        self._plain.dispose()
        self.home.close()
