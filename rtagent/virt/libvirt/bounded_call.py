"""The same libvirt call for many domains or devices, some of which may hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from rtagent.model.observation import Problem
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.workers import Workers


class Named(Protocol):
    """An item with a unique key: a domain's uuid or a device's name."""

    @property
    def key(self) -> str: ...


N = TypeVar("N", bound=Named)


class BoundedCalls:
    """Calls of one type through one session.

    An item whose call hangs is skipped until that call returns, so that one domain never blocks
    more than one thread.

    :param what: the type of item, as a `Problem` names it (``domain``).
    """

    def __init__(self, session: Session, workers: Workers, what: str) -> None:
        self._session, self._workers, self._what = session, workers, what
        self._under_way: set[str] = set()

    def each(
        self, call: Callable[[N], Any], items: Sequence[N]
    ) -> Iterator[tuple[N, Any | Problem]]:
        """Yield each item with its result, or with a `Problem` when its call hangs.

        :raises TimeoutError: libvirt as a whole hangs.
        """

        def bounded(item: N) -> Any:
            self._under_way.add(item.key)
            try:
                return call(item)
            finally:
                self._under_way.discard(item.key)

        def hung(item: N) -> Problem:
            # Raises TimeoutError if libvirt as a whole hangs, not only this item.
            self._workers.call(self._session.virt.getLibVersion)
            return self._problem(item)

        ready: list[N] = []
        for item in items:
            if item.key in self._under_way:
                yield item, self._problem(item)
            else:
                ready.append(item)
        yield from zip(ready, self._workers.each(bounded, ready, hung), strict=True)

    def _problem(self, item: Named) -> Problem:
        name = f"{self._what} {item.key}".strip()
        return Problem(item=name, message="libvirt has not answered yet")
