"""A scene: a home, what its callers were told, and ways to die in it."""

import random
import threading
from collections.abc import Callable
from typing import Any

from tests.servers.daemon import wait_until
from tests.stream.caller import attempt
from tests.stream.deed import Deed, Writer
from tests.stream.home import PATIENCE, Home
from tests.stream.judge import Judge, held, shown
from tests.stream.ledger import Ledger, Told
from tests.stream.record import Record


class Scene:
    """:ivar ledger: what was acknowledged, by any of the agent's lives."""

    def __init__(self, home: Home, seed: object) -> None:
        self.home, self.ledger = home, Ledger()
        self.rng = random.Random(repr(seed))
        self.writer = Writer(self.rng)
        self._judge: Judge | None = None

    # -- deeds ------------------------------------------------------------------------------------

    def do(self, deed: Deed) -> Any:
        """One that must succeed."""
        self.ledger.begin(deed)
        answer = attempt(self.home, deed)
        self.ledger.done(deed)
        return answer

    def keep_back(self, memory_mb: int) -> None:
        """So much more, for the host itself."""
        self.ledger.book.reserved_memory_mb += memory_mb
        self.home.set_reserve(self.ledger.book.reserved_memory_mb)

    def building(self) -> Told:
        """A new claim."""
        return self.ledger.told(self.do(self.writer.claim())["uuid"])

    # -- deaths and lives -------------------------------------------------------------------------

    def dies_of(self, ask: Callable[[], Any]) -> None:
        """Have the agent asked for something that it does not survive."""
        in_vain(ask)
        self.home.wait_died()

    def live(self, failpoint: str = "") -> None:
        """The next life. Should it end at its start, then of something that was not meant, such as
        what the first audit had to write: a life without the failpoint gets that done."""
        while not self.home.start(failpoint):
            self.judge()
            assert self.home.start()
            self.home.kill()

    # -- verdicts ---------------------------------------------------------------------------------

    def judge(self) -> Record:
        """The database says what was told."""
        if self._judge is None:  # the database may be the agent's own to make
            self._judge = Judge(self.home.url, vcpus=self.home.vcpus)
        return self._judge.judge(self.ledger)

    def confirm(self) -> Record:
        """So do the agent and the database."""
        record = self.judge()
        answer = self.home.invoke("get_claims_for_host")
        assert shown(answer["claims"]) == held(self.ledger)
        assert not answer["stale"]
        return record

    def wait_right(self) -> None:
        """Until the database says so, which is a matter of time."""
        wait_until(self._right, PATIENCE)

    def _right(self) -> bool:
        try:
            self.judge()
        except AssertionError:
            return False
        return True

    def close(self) -> None:
        self.home.close()
        if self._judge is not None:
            self._judge.close()


def in_vain(ask: Callable[[], Any]) -> None:
    """Have something asked for, in a thread, whatever comes of it."""
    threading.Thread(target=_ignoring_the_answer, args=(ask,), daemon=True).start()


def _ignoring_the_answer(ask: Callable[[], Any]) -> None:
    try:
        ask()
    except Exception:  # the agent dies of it; what its caller sees is no matter here
        return
