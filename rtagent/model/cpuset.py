"""Parse and format CPU sets as operators write them: ``0-3,^1,8``."""

import itertools
from collections.abc import Iterable, Iterator

#: Higher than the CPU numbers that Linux supports. Without a limit, a typing error could make a set
#: of a billion CPUs.
MAX_CPU = 65535

#: The largest sum of the sizes of a set's parts. A set of every CPU, written in single numbers, has
#: less; many large ranges would take minutes to parse.
_MAX_SUM = 4 * (MAX_CPU + 1)


class BadCpuSet(ValueError):
    """The text is not a CPU set. The message quotes the invalid part."""


def parse_cpu_spec(text: str, start: frozenset[int] = frozenset()) -> frozenset[int]:
    """Parse numbers and ranges (``4-7``). A part that begins with ``^`` is excluded, at any
    position in the text. Spaces and empty parts are ignored. The result may be empty.

    :param start: the CPUs that are in the set before the text is read.
    :raises BadCpuSet:
    """
    taken = set(start)
    excluded: set[int] = set()
    left = _MAX_SUM
    for part in filter(None, map(str.strip, text.split(","))):
        target = excluded if part.startswith("^") else taken
        numbers = _range(part)
        left -= len(numbers)
        if left < 0:
            raise BadCpuSet(f"its parts have more than {_MAX_SUM} CPUs together")
        target.update(numbers)
    return frozenset(taken - excluded)


def format_cpu_spec(cpus: Iterable[int]) -> str:
    """Return the shortest text that `parse_cpu_spec` parses to this set: ``0-3,8``."""
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in _runs(cpus))


def _range(part: str) -> range:
    low, dash, high = part.removeprefix("^").partition("-")
    first = _number(low, part)
    last = _number(high, part) if dash else first
    if first > last:
        raise BadCpuSet(f"{part!r}: the first CPU of a range must not exceed the last")
    return range(first, last + 1)


def _number(text: str, part: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal()):
        raise BadCpuSet(f"{part!r}: {digits!r} is not a CPU number")
    if len(digits) > len(str(MAX_CPU)) or int(digits) > MAX_CPU:
        raise BadCpuSet(f"{part!r}: {digits} exceeds {MAX_CPU}, the highest CPU number")
    return int(digits)


def _runs(cpus: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each run of consecutive numbers.

    Within a run, the difference between number and position is constant.
    """
    places = enumerate(sorted(cpus))
    for _, run in itertools.groupby(places, key=lambda place: place[1] - place[0]):
        numbers = [number for _, number in run]
        yield numbers[0], numbers[-1]
