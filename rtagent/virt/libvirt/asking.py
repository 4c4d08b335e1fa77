"""A question put to many domains, or devices, of which some may hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from rtagent.model.observation import Problem
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.worker import Workers


class Named(Protocol):
    """Anything that can be told apart: a domain by its uuid, a device by its name."""

    @property
    def key(self) -> str: ...


N = TypeVar("N", bound=Named)


class Asking:
    """Asks through one session, always the same kind of question.

    What hangs is not asked again until the call that hangs returns, lest one domain hold more than
    one thread.

    :param what: is asked about, in a `Problem`: ``domain``, say.
    """

    def __init__(self, session: Session, workers: Workers, what: str) -> None:
        self._session, self._workers, self._what = session, workers, what
        self._under_way: set[str] = set()

    def ask(
        self, question: Callable[[N], Any], those: Sequence[N]
    ) -> Iterator[tuple[N, Any | Problem]]:
        """Each with its answer, or with a `Problem` if it hangs.

        :raises TimeoutError: libvirt hangs as a whole.
        """

        def bounded(each: N) -> Any:
            self._under_way.add(each.key)
            try:
                return question(each)
            finally:
                self._under_way.discard(each.key)

        def hung(each: N) -> Problem:
            # Either this one hangs, or libvirt as a whole, in which case this hangs too.
            self._workers.call(self._session.virt.getLibVersion)
            return self._problem(each)

        ready: list[N] = []
        for each in those:
            if each.key in self._under_way:
                yield each, self._problem(each)
            else:
                ready.append(each)
        yield from zip(ready, self._workers.each(bounded, ready, hung), strict=True)

    def _problem(self, each: Named) -> Problem:
        item = f"{self._what} {each.key}".strip()
        return Problem(item=item, message="libvirt has not answered yet")
