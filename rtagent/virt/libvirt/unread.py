"""The parts of a domain document that cannot be read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rtagent.model.domain_usage import HostResource
from rtagent.virt.libvirt.document import BadDocument

_T = TypeVar("_T")
_R = TypeVar("_R")


class Unread:
    """Collects what cannot be read of one document, so that the rest of it still counts.

    :ivar kinds: the host resources of the domain that are unknown for this reason.
    :ivar problems: one text for each item, which names its element.
    """

    def __init__(self) -> None:
        self.kinds: set[HostResource] = set()
        self.problems: list[str] = []

    def each(
        self, read: Callable[[_T], _R], items: Iterable[_T], *kinds: HostResource
    ) -> Iterator[_R]:
        """Yield what `read` returns for each item, without those that cannot be read.

        :param kinds: what is unknown if an item cannot be read.
        """
        for item in items:
            try:
                yield read(item)
            except BadDocument as error:
                self.add(str(error), *kinds)

    def add(self, problem: str, *kinds: HostResource) -> None:
        """Note an item, and what is unknown because of it."""
        self.kinds.update(kinds)
        self.problems.append(problem)

    def check(self) -> None:
        """:raises BadDocument: an item could not be read; it names the first."""
        if self.problems:
            raise BadDocument(self.problems[0])
