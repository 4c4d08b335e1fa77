"""A question put to many domains, of whom some may hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from rtagent.model.observation import Problem
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.worker import Workers


class Named(Protocol):
    """Anything with a domain's uuid."""

    uuid: str


N = TypeVar("N", bound=Named)


class Asking:
    """Asks through one session, always the same kind of question.

    A domain that hangs is not asked again until the call that hangs returns, lest one domain hold
    more than one thread.

    :param what: is asked about, in a `Problem`: ``domain``, say.
    """

    def __init__(self, session: Session, workers: Workers, what: str) -> None:
        self._session, self._workers, self._what = session, workers, what
        self._under_way: set[str] = set()

    def ask(
        self, question: Callable[[N], Any], domains: Sequence[N]
    ) -> Iterator[tuple[N, Any | Problem]]:
        """Each with its answer, or with a `Problem` if it hangs.

        :raises TimeoutError: libvirt hangs as a whole.
        """

        def bounded(domain: N) -> Any:
            self._under_way.add(domain.uuid)
            try:
                return question(domain)
            finally:
                self._under_way.discard(domain.uuid)

        def hung(domain: N) -> Problem:
            # Either this domain hangs, or libvirt as a whole, in which case this hangs too.
            self._workers.call(self._session.virt.getLibVersion)
            return self._problem(domain)

        ready: list[N] = []
        for domain in domains:
            if domain.uuid in self._under_way:
                yield domain, self._problem(domain)
            else:
                ready.append(domain)
        yield from zip(ready, self._workers.each(bounded, ready, hung), strict=True)

    def _problem(self, domain: Named) -> Problem:
        return Problem(item=f"{self._what} {domain.uuid}", message="libvirt has not answered yet")
