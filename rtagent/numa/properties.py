"""A flavor's extra specs and an image's properties, read side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rtagent.errors import FlavorImageConflict, PropertyConflict, PropertyInvalid
from rtagent.model import cpuset
from rtagent.model.base import Value
from rtagent.model.flavor import Flavor, Image

#: Words that oslo.utils takes for yes and no; Nova takes any other for no, and here it is an error.
_YES = frozenset({"1", "t", "true", "on", "y", "yes"})
_NO = frozenset({"0", "f", "false", "off", "n", "no"})


class Property(NamedTuple):
    """A property as one side has it: its name there, and its value."""

    name: str
    value: str

    def invalid(self, rule: str) -> PropertyInvalid:
        """The error: the value breaks the rule."""
        return PropertyInvalid(properties=dict([self]), rule=rule)

    def one_of(self, allowed: tuple[str, ...]) -> str:
        """:raises PropertyInvalid: it is none of them."""
        if self.value not in allowed:
            raise self.invalid(f"must be one of {', '.join(allowed)}")
        return self.value

    def integer(self, least: int = 1) -> int:
        """:raises PropertyInvalid: it is no number, or a smaller one."""
        digits = self.value.strip()
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 10:
            raise self.invalid("must be a whole number")
        if int(digits) < least:
            raise self.invalid(f"must be at least {least}")
        return int(digits)

    def boolean(self) -> bool:
        """:raises PropertyInvalid: it is neither yes nor no."""
        word = self.value.strip().lower()
        if word not in _YES | _NO:
            raise self.invalid("must be yes or no")
        return word in _YES

    def cpus(self, start: frozenset[int] = frozenset()) -> frozenset[int]:
        """:param start: CPUs that are in the set unless it excludes them.
        :raises PropertyInvalid: it is no set of CPUs.
        """
        try:
            return cpuset.parse_cpu_spec(self.value, start)
        except cpuset.BadCpuSet as error:
            raise self.invalid(str(error)) from error


class Pair(NamedTuple):
    """A property as the flavor and the image have it; None where a side leaves it out."""

    flavor: Property | None
    image: Property | None

    def conflict(self, rule: str) -> FlavorImageConflict:
        """The error: the image may not override the flavor so."""
        return overriding(rule, *self)


class Properties(Value, frozen=True):
    """Both sides. A property with an empty value is one that is left out, as in Nova."""

    flavor: Flavor
    image: Image

    def __hash__(self) -> int:
        """What tells most of them apart; the mappings have no order."""
        specs, properties = self.flavor.extra_specs, self.image.properties
        size = (self.flavor.vcpus, self.flavor.memory_mb)
        return hash((size, frozenset(specs.items()), frozenset(properties.items())))

    def extra_spec(self, name: str) -> Property | None:
        """What the flavor says."""
        value = self.flavor.extra_specs.get(name)
        return Property(name, value) if value else None

    def pair(self, name: str) -> Pair:
        """:param name: the extra spec's; the image property has ``_`` for the colon."""
        theirs = name.replace(":", "_", 1)
        value = self.image.properties.get(theirs)
        return Pair(self.extra_spec(name), Property(theirs, value) if value else None)

    def one(self, name: str) -> Property | None:
        """The side that has it; both may, with one value.

        :raises FlavorImageConflict: they differ.
        """
        pair = self.pair(name)
        if pair.flavor and pair.image and pair.flavor.value != pair.image.value:
            raise pair.conflict("the image may not differ from the flavor")
        return pair.flavor or pair.image

    def grouped(self, prefix: str, rest: str) -> Iterator[Property]:
        """Extra specs of any request group: ``resources:PCPU``, ``resources1:PCPU``, ..."""
        pattern = re.compile(rf"{re.escape(prefix)}([1-9][0-9]*)?:{re.escape(rest)}")
        for name, value in self.flavor.extra_specs.items():
            if pattern.fullmatch(name):
                yield Property(name, value)

    def sides(self, name: str, default: str) -> tuple[Property, ...]:
        """Who asks for it, for an error to name; the value that is in force when nobody does."""
        return tuple(filter(None, self.pair(name))) or (Property(name, default),)


def conflict(rule: str, *sides: Property | None) -> PropertyConflict:
    """The error: what these properties ask for excludes each other."""
    return PropertyConflict(properties=dict(filter(None, sides)), rule=rule)


def overriding(rule: str, *sides: Property | None) -> FlavorImageConflict:
    """The error: the image overrides what the flavor has decided."""
    return FlavorImageConflict(properties=dict(filter(None, sides)), rule=rule)
