"""Extra specs of a flavor and properties of an image, read together."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rtagent.errors import FlavorImageConflict, PropertyConflict, PropertyInvalid
from rtagent.model import cpuset
from rtagent.model.base import BOOLEANS, Value


class Property(NamedTuple):
    """A property as set in the flavor or the image: its name there, and its value."""

    name: str
    value: str

    def invalid(self, rule: str) -> PropertyInvalid:
        """Return the error for a value that violates a rule."""
        return PropertyInvalid(properties=dict([self]), rule=rule)

    def one_of(self, allowed: tuple[str, ...]) -> str:
        """Return the value.

        :raises PropertyInvalid: it is not one of the allowed values.
        """
        if self.value not in allowed:
            raise self.invalid(f"must be one of {', '.join(allowed)}")
        return self.value

    def integer(self, least: int = 1) -> int:
        """Parse the value as an integer.

        :raises PropertyInvalid: it is not an integer, or less than `least`.
        """
        digits = self.value.strip()
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 10:
            raise self.invalid("must be a whole number")
        if int(digits) < least:
            raise self.invalid(f"must be at least {least}")
        return int(digits)

    def boolean(self) -> bool:
        """Parse the value as a boolean.

        :raises PropertyInvalid: it is neither yes nor no.
        """
        enabled = BOOLEANS.get(self.value.strip().lower())
        if enabled is None:
            raise self.invalid("must be yes or no")
        return enabled

    def cpus(self, start: frozenset[int] = frozenset()) -> frozenset[int]:
        """Parse the value as a set of CPUs.

        :param start: CPUs that belong to the set unless the value excludes them.
        :raises PropertyInvalid: it is not a set of CPUs.
        """
        try:
            return cpuset.parse_cpu_spec(self.value, start)
        except cpuset.BadCpuSet as error:
            raise self.invalid(str(error)) from error


class Pair(NamedTuple):
    """A property as the flavor and the image set it; None where one of them leaves it unset."""

    flavor: Property | None
    image: Property | None

    def conflict(self, rule: str) -> FlavorImageConflict:
        """Return the error for an image that overrides the flavor in a way that is not allowed."""
        return overriding(rule, *self)


class Properties(Value, frozen=True, kw_only=True):
    """The properties from which a guest's CPUs, cells and pages are derived.

    Whether an empty value counts as unset follows Nova: see `pair`, `typed` and `given`.

    :ivar vcpus: and memory_mb (MB): the size of the flavor.
    :ivar image: the image's properties.
    """

    vcpus: int
    memory_mb: int
    extra_specs: Mapping[str, str] = {}
    image: Mapping[str, str] = {}

    def __hash__(self) -> int:
        """Hash the items of the mappings, which are not hashable and have no order."""
        specs, image = frozenset(self.extra_specs.items()), frozenset(self.image.items())
        return hash((self.vcpus, self.memory_mb, specs, image))

    def extra_spec(self, name: str) -> Property | None:
        """Return the flavor's extra spec of that name."""
        value = self.extra_specs.get(name)
        return Property(name, value) if value else None

    def pair(self, name: str) -> Pair:
        """Return a property of both sides. An empty value counts as unset.

        :param name: of the extra spec; the image property has ``_`` instead of the colon.
        """
        flavor, image = self.given(name)
        return Pair(
            flavor if flavor and flavor.value else None, image if image and image.value else None
        )

    def typed(self, name: str) -> Pair:
        """Return a property of both sides, as `pair` does; an empty value of the image counts as
        set, because Nova's image properties have types.
        """
        return Pair(self.extra_spec(name), self.given(name).image)

    def given(self, name: str) -> Pair:
        """Return a property of both sides, as `pair` does; an empty value counts as set."""
        image_name = name.replace(":", "_", 1)
        flavor, image = self.extra_specs.get(name), self.image.get(image_name)
        return Pair(
            None if flavor is None else Property(name, flavor),
            None if image is None else Property(image_name, image),
        )

    def agreed(self, name: str) -> Property | None:
        """Return a property that either side may set. Both sides may set it to the same value.

        :raises FlavorImageConflict: the values differ.
        """
        pair = self.pair(name)
        if pair.flavor and pair.image and pair.flavor.value != pair.image.value:
            raise pair.conflict("the image may not differ from the flavor")
        return pair.flavor or pair.image

    def in_request_groups(self, prefix: str, rest: str) -> Iterator[Property]:
        """Return an extra spec of every request group: ``resources:PCPU``, ``resources1:PCPU``.
        Empty values count as unset.
        """
        pattern = re.compile(rf"{re.escape(prefix)}([a-zA-Z0-9_-]{{1,64}})?:{re.escape(rest)}")
        for name, value in self.extra_specs.items():
            if value and pattern.fullmatch(name):
                yield Property(name, value)

    @property
    def flavor_vcpus(self) -> Property:
        """The number of vCPUs, for an error."""
        return Property("flavor.vcpus", str(self.vcpus))

    @property
    def flavor_memory(self) -> Property:
        """The size of the memory, for an error."""
        return Property("flavor.memory_mb", str(self.memory_mb))


def conflict(rule: str, *properties: Property | None) -> PropertyConflict:
    """Return the error for properties whose values exclude each other."""
    return PropertyConflict(properties=dict(filter(None, properties)), rule=rule)


def overriding(rule: str, *properties: Property | None) -> FlavorImageConflict:
    """Return the error for an image that overrides a decision of the flavor."""
    return FlavorImageConflict(properties=dict(filter(None, properties)), rule=rule)
