"""The queries of pages: every value is checked, and a wrong one is named."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from markupsafe import Markup, escape

from rtagent.errors import InvalidRequest

_T = TypeVar("_T")
#: Characters of one value.
LONGEST = 10_000


class PageQuery:
    """The query of one page.

    Each method names the value that is wrong, and the page shows that: `InvalidRequest`.
    """

    def __init__(self, page: str, values: Mapping[str, str], known: Collection[str]) -> None:
        """
        :param known: the names that the page understands.
        :raises InvalidRequest: there is another name, or a value is too long.
        """
        self._page, self._values = page, values
        if unknown := sorted(values.keys() - set(known)):
            raise self.error(unknown[0], f"is not one of {', '.join(sorted(known))}")
        for name, value in values.items():
            if len(value) > LONGEST:
                raise self.error(name, f"has more than {LONGEST} characters")

    def text(self, name: str) -> str:
        """Return a text, or "" without it."""
        return self._values.get(name, "").strip()

    def choice(self, name: str, choices: Collection[str], default: str = "") -> str:
        """Return one of the choices, or the default if there is no value."""
        value = self.text(name)
        if value and value not in choices:
            raise self.error(name, f"is {value!r}; choose one of {', '.join(choices)}")
        return value or default

    def number(self, name: str, default: int = 0) -> int:
        """Return a number of at least 0, or the default if there is no value."""
        value = self.text(name)
        if not value:
            return default
        if not (value.isascii() and value.isdecimal() and len(value) <= 18):
            raise self.error(name, f"is {value!r}; give a number of at least 0")
        return int(value)

    def link(self, **changed: object) -> Markup:
        """Return this page with other values; None or "" leaves one out.

        It is escaped here, because a text on a page is shortened, and a link must be whole.
        """
        values = {**self._values, **changed}
        query = urlencode({name: value for name, value in values.items() if value})
        return escape(f"{self._page}?{query}" if query else self._page)

    def table(
        self,
        rows: Sequence[_T],
        most: int,
        sorts: Mapping[str, Callable[[_T], Any]],
        sort: str,
        order: str = "up",
    ) -> Mapping[str, Any]:
        """Return a `part` of the sorted rows; by what they are sorted: ``sort`` and ``order``; and
        ``sorts``: for each column a link that sorts by it; the other way round, if it does now.

        :param sorts: by column: what it is sorted by.
        :param sort: and :param order: if nothing is asked for.
        """
        order = self.choice("order", ("up", "down"), "up" if self.text("sort") else order)
        sort = self.choice("sort", sorts, sort)
        links = {
            name: self.link(
                sort=name,
                order="down" if name == sort and order == "up" else None,
                **{"from": None},
            )
            for name in sorts
        }
        ordered = sorted(rows, key=sorts[sort], reverse=order == "down")
        return {**self.part(ordered, most), "sort": sort, "order": order, "sorts": links}

    def part(self, rows: Sequence[object], most: int) -> Mapping[str, Any]:
        """Return the part of a table that is shown: its ``rows``, ``start``, the number of those
        before it, ``found``, that of all, and links to the parts ``before`` and ``after`` it, or
        "".

        :param most: rows of one part.
        """
        number = len(rows)
        start = min(self.number("from"), max(0, number - 1) // most * most)
        return {
            "rows": rows[start : start + most],
            "start": start,
            "found": number,
            "before": self.link(**{"from": max(0, start - most) or None}) if start else "",
            "after": self.link(**{"from": start + most}) if start + most < number else "",
        }

    def error(self, name: str, message: str) -> InvalidRequest:
        """Return the error that a value is wrong."""
        return InvalidRequest.at(f"GET {self._page}", name, message)
