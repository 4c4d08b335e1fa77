"""A site: a daemon, its callers, and what must be true when everything is back."""

import contextlib
import logging
from collections.abc import Callable, Iterator

from rtagent.errors import RtAgentError
from tests.servers import Server
from tests.servers.daemon import wait_until
from tests.stream.caller import Stream
from tests.stream.home import DaemonHome
from tests.stream.judge import Judge, held, shown
from tests.stream.record import Record, open_plain, read

LOG = logging.getLogger(__name__)

#: Seconds; nothing here takes that long.
PATIENCE = 90.0


def outages(server: Server) -> Iterator[contextlib.AbstractContextManager[None]]:
    """A server goes away in order, as by a power cut, and as if it hung: each for the length of its
    block."""
    yield _away(server, server.stop, server.start)
    yield _away(server, server.kill, server.start)
    yield _away(server, server.freeze, server.thaw)


@contextlib.contextmanager
def _away(
    server: Server, leave: Callable[[], object], come: Callable[[], object]
) -> Iterator[None]:
    LOG.info("%s: %s", server.name, leave.__name__)
    leave()
    try:
        yield
    finally:
        come()


class Site:
    """A daemon that runs."""

    def __init__(self, home: DaemonHome) -> None:
        self.home = home
        assert home.start()
        self.judge = Judge(home.url, vcpus=home.vcpus)
        self._plain = open_plain(home.url)

    def stream(self, seed: object) -> Stream:
        """Eight callers."""
        return Stream(self.home, seed)

    def checks(self) -> dict[str, str]:
        """Its parts' health."""
        checks = self.home.daemon.read("health")["checks"]
        return {part: told[0]["status"] for part, told in checks.items()}

    def wait_ill(self, part: str) -> None:
        """Until it has noticed that something is wrong with that part."""
        wait_until(lambda: self.checks().get(part) in ("warn", "fail"), PATIENCE)

    def wait_well(self) -> None:
        """Until it is as if nothing had been: by itself."""
        wait_until(self._well, PATIENCE)

    def ready(self) -> bool:
        """Whether it grants claims."""
        try:
            return bool(self.home.daemon.read("ready")["ready"])
        except RtAgentError:
            return False

    def _well(self) -> bool:
        stale = self.home.daemon.read("nodes")["stale"]
        return self.ready() and not stale and set(self.checks().values()) == {"pass"}

    def record(self) -> Record:
        """What the database holds."""
        return read(self._plain)

    def confirm(self, stream: Stream) -> None:
        """Nothing that was acknowledged is lost, and nothing was granted twice."""
        self.judge.judge(stream.ledger)
        answer = self.home.invoke("get_claims_for_host")
        assert shown(answer["claims"]) == held(stream.ledger)
        assert not answer["stale"]

    def close(self) -> None:
        self.judge.close()
        self._plain.dispose()
        self.home.close()
