"""Option types that oslo.config does not have. Their errors name the rule that the
value violates.
"""

import math
from contextlib import suppress
from typing import Any

import os_traits
from oslo_config import types

from rtagent.model.base import MAX_INT, Value
from rtagent.model.cpuset import format_cpu_spec, parse_cpu_spec
from rtagent.model.pages import MAX_SIZE, BadPageSize, parse_size

_TRAITS = frozenset(os_traits.get_traits())


class Items(types.List):
    """Items without commas, separated by commas.

    The list type of oslo.config appends what follows the comma to an item that is invalid, which
    may make a valid one of two.
    """

    def __call__(self, value: Any) -> list[Any]:
        """:raises ValueError: names the invalid item."""
        if isinstance(value, str):
            text = value.strip().rstrip(",")
            value = [item.strip() for item in text.split(",")] if text else []
        return [self._item(item) for item in value]

    def _item(self, item: Any) -> Any:
        try:
            return self.item_type(item)
        except ValueError as exc:
            raise ValueError(f"item {item!r}: {exc}") from exc


class CpuSet(types.ConfigType):
    """CPUs as operators write them: ``0-3,^1,8``. An empty value counts as unset."""

    def __init__(self) -> None:
        super().__init__(type_name="CPU set")

    def __call__(self, value: Any) -> frozenset[int] | None:
        """:raises BadCpuSet:"""
        if isinstance(value, frozenset):
            return value
        return parse_cpu_spec(value) if value.strip() else None

    def _formatter(self, value: frozenset[int]) -> str:
        return format_cpu_spec(value)


class StandardTrait(types.String):
    """A trait of os-traits that begins with one of the prefixes.

    :param implied: what the operator leaves out at the beginning.
    """

    def __init__(self, *prefixes: str, implied: str = "") -> None:
        super().__init__(type_name="trait")
        self._prefixes, self._implied = prefixes, implied

    def __call__(self, value: Any) -> str:
        """:raises ValueError: there is no such trait."""
        written = super().__call__(value)
        name = self._implied + (written.upper() if self._implied else written)
        if not name.startswith(self._prefixes) or name not in _TRAITS:
            raise ValueError(f"it is not one of the standard traits {self._expected}")
        return written

    @property
    def _expected(self) -> str:
        return ", ".join(f"{prefix}*" for prefix in self._prefixes)


class MonitorName(types.String):
    """A monitor as ``TYPE.NAME``. As in Nova, the type ``cpu`` and the path of Nova's modules need
    not be written.
    """

    def __call__(self, value: Any) -> str:
        name = str(super().__call__(value)).removeprefix("nova.compute.monitors.")
        return name if "." in name else f"cpu.{name}"


class ReservedPages(Value, frozen=True, kw_only=True):
    """Pages of one size in one cell that are reserved for the host.

    :ivar node: the cell. :ivar size: KiB.
    """

    node: int
    size: int
    count: int

    def __str__(self) -> str:
        return f"node:{self.node},size:{self.size},count:{self.count}"


class HugePages(types.ConfigType):
    """``node:0,size:2048,count:64``; the size in KiB, or with a unit (``1GB``)."""

    def __init__(self) -> None:
        super().__init__(type_name="pages of a cell")
        self._pairs = types.Dict(types.String())

    def __call__(self, value: Any) -> ReservedPages:
        """:raises ValueError: a key is missing or unknown, or its value is invalid."""
        if isinstance(value, ReservedPages):
            return value
        fields = self._pairs(value)
        if fields.keys() != {"node", "size", "count"}:
            raise ValueError(f"{value!r} must have node, size and count, and no other key")
        return ReservedPages(
            node=_number("node", fields["node"]),
            size=_size(fields["size"]),
            count=_number("count", fields["count"]),
        )

    def _formatter(self, value: ReservedPages) -> str:
        return str(value)


def _number(name: str, text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and int(digits) <= MAX_INT):
        raise ValueError(f"{name} {digits!r} is not a whole number from 0 to {MAX_INT}")
    return int(digits)


def _size(text: str) -> int:
    with suppress(BadPageSize):  # which names what only a flavor may request, too
        return parse_size(text)
    rule = f"neither whole KiB from 1 to {MAX_SIZE}, nor a number with a unit (2MB, 1GiB)"
    raise ValueError(f"size {text!r} is {rule}")


class FiniteFloat(types.Float):
    """A number, neither infinite nor "not a number": a weight multiplied by such a one means
    nothing, and such a time never ends. An empty value is none.
    """

    def __call__(self, value: Any) -> float | None:
        """:raises ValueError: it is not a finite number, or is out of bounds."""
        number = super().__call__(value)
        if number is None:
            return None
        if not math.isfinite(number):
            raise ValueError(f"{value!r} is not a finite number")
        return float(number)


class Ratio(types.ConfigType):
    """``NAME=NUMBER``."""

    def __init__(self) -> None:
        super().__init__(type_name="name=ratio")

    def __call__(self, value: Any) -> tuple[str, float]:
        """:raises ValueError: it has no name or no finite number."""
        if isinstance(value, tuple):
            return value
        name, _, number = (part.strip() for part in value.partition("="))
        try:
            ratio = float(number)
        except ValueError:
            ratio = math.nan
        if not name or not math.isfinite(ratio):
            raise ValueError("it is not NAME=NUMBER, for example cpu.percent=-1.0")
        return name, ratio

    def _formatter(self, value: tuple[str, float]) -> str:
        name, ratio = value
        return f"{name}={ratio}"


class RatiosType(types.ConfigType):
    """``NAME=NUMBER`` several times, separated by commas. Each name is listed once."""

    def __init__(self) -> None:
        super().__init__(type_name="name=ratio, ...")
        self._pairs = Items(Ratio())

    def __call__(self, value: Any) -> dict[str, float]:
        """:raises ValueError: an item has no name or no finite number, or is listed twice."""
        if isinstance(value, dict):
            return value
        pairs = self._pairs(value)
        ratios = dict(pairs)
        if len(ratios) < len(pairs):
            raise ValueError(f"{value!r} lists a name twice")
        return ratios

    def _formatter(self, value: dict[str, float]) -> str:
        return ", ".join(f"{name}={ratio}" for name, ratio in value.items())
