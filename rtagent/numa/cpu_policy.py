"""Which of a guest's vCPUs have a host CPU to themselves."""

from __future__ import annotations

from rtagent.numa.properties import Properties, Property, conflict

#: vCPUs float on the shared CPUs.
SHARED = "shared"
#: Each vCPU has a host CPU of its own.
DEDICATED = "dedicated"
#: Some have, some float.
MIXED = "mixed"

CPU_POLICIES = (SHARED, DEDICATED, MIXED)

#: What an image may not ask for beside a flavor's policy; whatever else it says gives way.
_FORBIDDEN = {SHARED: (DEDICATED, MIXED), MIXED: (DEDICATED,), DEDICATED: ()}


def cpu_policy(properties: Properties) -> str:
    """``hw:cpu_policy``, or what ``resources:VCPU`` and ``resources:PCPU`` amount to.

    :raises InvalidFlavor:
    """
    named = _named(properties)
    vcpus = tuple(properties.grouped("resources", "VCPU"))
    pcpus = tuple(properties.grouped("resources", "PCPU"))
    if named and (_total(vcpus) or _total(pcpus)):
        raise conflict(
            "a CPU policy is not combined with resources:VCPU or resources:PCPU",
            *properties.pair("hw:cpu_policy"),
            *vcpus,
            *pcpus,
        )
    if _total(vcpus) and _total(pcpus):
        raise conflict("resources:VCPU and resources:PCPU are not combined", *vcpus, *pcpus)
    if _total(pcpus):
        return DEDICATED
    return named or SHARED


def requested_pcpus(properties: Properties) -> int:
    """The sum of ``resources:PCPU`` over the request groups; 0 when there is none."""
    return _total(tuple(properties.grouped("resources", "PCPU")))


def _named(properties: Properties) -> str | None:
    flavor, image = pair = properties.pair("hw:cpu_policy")
    for side in filter(None, pair):
        side.one_of(CPU_POLICIES)
    if flavor and image and image.value in _FORBIDDEN[flavor.value]:
        raise pair.conflict(f"an image may not ask for {image.value} CPUs beside this flavor")
    named = flavor or image
    return named.value if named else None


def _total(amounts: tuple[Property, ...]) -> int:
    return sum(amount.integer(least=0) for amount in amounts)
