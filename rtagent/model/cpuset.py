"""Sets of CPUs as operators write them: ``0-3,^1,8``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

#: No kernel counts further; a typing error must not make a set of a billion.
MAX_CPU = 65535


class BadCpuSet(ValueError):
    """The text is no set of CPUs; the message quotes the part that is at fault."""


def parse_cpu_spec(text: str, start: frozenset[int] = frozenset()) -> frozenset[int]:
    """Numbers and ranges (``4-7``), each taken out again when it begins with ``^``, wherever it
    stands. Spaces and empty parts do not matter; the result may be empty.

    :param start: what is in the set before the text is read.
    :raises BadCpuSet:
    """
    taken = set(start)
    excluded: set[int] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        target = excluded if part.startswith("^") else taken
        target.update(_range(part))
    return frozenset(taken - excluded)


def format_cpu_spec(cpus: Iterable[int]) -> str:
    """The shortest text that `parse_cpu_spec` reads as this set: ``0-3,8``."""
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in _runs(cpus))


def _range(part: str) -> range:
    low, dash, high = part.removeprefix("^").partition("-")
    first = _number(low, part)
    last = _number(high, part) if dash else first
    if first > last:
        raise BadCpuSet(f"{part!r}: a range goes from its lower end to its higher one")
    return range(first, last + 1)


def _number(text: str, part: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal()):
        raise BadCpuSet(f"{part!r}: {digits!r} is no CPU number")
    if len(digits) > len(str(MAX_CPU)) or int(digits) > MAX_CPU:
        raise BadCpuSet(f"{part!r}: {digits} is beyond {MAX_CPU}, the highest CPU number")
    return int(digits)


def _runs(cpus: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ends of each run of consecutive numbers: along one, number and place differ by the same."""
    places = enumerate(sorted(cpus))
    for _, run in itertools.groupby(places, key=lambda place: place[1] - place[0]):
        numbers = [number for _, number in run]
        yield numbers[0], numbers[-1]
