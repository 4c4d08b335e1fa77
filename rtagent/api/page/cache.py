"""PageCache: renders a page once for each version of its data, whatever the number of viewers."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from rtagent.api.page.owners import OwnerRows
from rtagent.api.reply import Reply
from rtagent.model.base import Value

#: Pages that are kept. A page with other filters is another page.
SIZE = 32
#: A page is shown for so many times the time that its rendering took, also if its data are newer
#: by then. So each page uses a fifth of a CPU at most, also while claims come and go all the time.
PAUSE = 4
#: Seconds after which newer data are shown in any case.
LONGEST_PAUSE = 0.5


class _Rendered(Value, frozen=True, kw_only=True):
    """:ivar until: of the monotonic clock: until then it is shown in any case."""

    version: Hashable
    reply: Reply
    until: float


class PageCache:
    """Thread-safe. One thread renders, and the others that want a page wait for it.

    :ivar owners: with their badges, which all pages share.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.owners = OwnerRows(linked=True)
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: OrderedDict[str, _Rendered] = OrderedDict()

    def reply(self, target: str, version: Hashable, render: Callable[[], Reply]) -> Reply:
        """Return the page at a path and query.

        :param version: of its data; a page is rendered again when it differs.
        """
        with self._lock:
            known = self._pages.get(target)
            began = self._clock()
            if known is not None and (known.version == version or began < known.until):
                self._pages.move_to_end(target)
                return known.reply
            made = render()
            ended = self._clock()
            until = ended + min(LONGEST_PAUSE, PAUSE * (ended - began))
            self._pages[target] = _Rendered(version=version, reply=made, until=until)
            self._pages.move_to_end(target)
            if len(self._pages) > SIZE:
                self._pages.popitem(last=False)
            return made
