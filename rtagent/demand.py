"""What a request asks for, told from its flavor, its image and what it names besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from rtagent.errors import InvalidPciRequest
from rtagent.model.base import MB_IN_GB, Value
from rtagent.model.flavor import Flavor
from rtagent.model.request import BuildRequest, ExtraResource
from rtagent.numa.constraints import Constraints, constraints
from rtagent.numa.properties import Property
from rtagent.pci.pmem import pmem_request
from rtagent.pci.specific import Asked

#: The classes that have amounts of their own, here or in `Constraints`.
PLAIN_CLASSES = frozenset({"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"})


class Demand(Value, frozen=True, kw_only=True):
    """:ivar vcpus: shared ones. :ivar pcpus: dedicated CPUs. :ivar memory_mb: MB.
    :ivar disk_mb: MB. :ivar place: what is asked of CPUs, cells and pages.
    :ivar specific: of each class that is none of these: how many, or which.
    """

    vcpus: int
    pcpus: int
    memory_mb: int
    disk_mb: int
    place: Constraints
    specific: Mapping[str, Asked] = {}


def of(request: BuildRequest) -> Demand:
    """All that a build asks of the host.

    :raises InvalidFlavor: flavor and image, taken together, describe no guest.
    :raises InvalidPciRequest: ``hw:pmem`` is no list of labels.
    """
    flavor, extra = request.instance.flavor, request.extra_resource
    place = constraints(flavor, request.instance.image)
    disk = disk_mb(flavor, request.instance.is_volume_backed)
    return Demand(
        vcpus=place.vcpus + _amount(extra, "VCPU"),
        pcpus=place.pcpus,
        memory_mb=flavor.memory_mb + _amount(extra, "MEMORY_MB"),
        disk_mb=disk + _amount(extra, "DISK_GB") * MB_IN_GB,
        place=place,
        specific=_specific(flavor, extra),
    )


def disk_mb(flavor: Flavor, is_volume_backed: bool) -> int:
    """MB on the host's own disks: root (none when it is a volume), ephemeral, swap, exactly."""
    root = 0 if is_volume_backed else flavor.root_gb
    return (root + flavor.ephemeral_gb) * MB_IN_GB + flavor.swap


def _amount(extra: ExtraResource, resource: str) -> int:
    asked = extra.get(resource, 0)
    return asked if isinstance(asked, int) else 0


def _specific(flavor: Flavor, extra: ExtraResource) -> dict[str, Asked]:
    """Members that are named answer for the flavor's number of that class, which they may be more
    than; numbers add up."""
    numbers = Counter(pmem_request(flavor))
    for resource, number in _properties(flavor):
        numbers[resource] += number
    named: dict[str, tuple[str, ...]] = {}
    for resource, asked in extra.items():
        if not isinstance(asked, int):
            named[resource] = asked
        elif resource not in PLAIN_CLASSES - {"PCPU"}:
            numbers[resource] += asked
    return {**numbers, **{each: _members(each, named[each], numbers[each]) for each in named}}


def _members(resource: str, named: tuple[str, ...], number: int) -> tuple[str, ...]:
    if len(named) < number:
        rule = f"the flavor asks for {number}"
        raise InvalidPciRequest(
            where=f"extra_resource {resource}", value=", ".join(named), rule=rule
        )
    return named


def _properties(flavor: Flavor) -> Iterator[tuple[str, int]]:
    """Classes of resources (``resources:CLASS``) that are none of the plain ones.

    :raises PropertyInvalid: how many is no number.
    """
    for key, value in flavor.extra_specs.items():
        group, _, name = key.partition(":")
        if value and group.startswith("resources") and name not in PLAIN_CLASSES:
            number = Property(key, value).integer(least=0)
            if number:
                yield name, number
