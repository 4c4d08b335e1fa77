"""How dedicated vCPUs meet the threads of the host's cores."""

from __future__ import annotations

from rtagent.numa.cpu_policy import SHARED
from rtagent.numa.properties import Pair, Properties, Property, conflict

#: On thread siblings where there are some free, elsewhere otherwise.
PREFER = "prefer"
#: One to a core, whose other threads nobody uses.
ISOLATE = "isolate"
#: On thread siblings only.
REQUIRE = "require"

THREAD_POLICIES = (PREFER, ISOLATE, REQUIRE)

_TRAIT = "HW_CPU_HYPERTHREADING"
_BY_TRAIT = {"required": REQUIRE, "forbidden": ISOLATE}


def thread_policy(properties: Properties, cpu_policy: str) -> str:
    """``hw:cpu_thread_policy``, or what the trait HW_CPU_HYPERTHREADING amounts to; ``prefer``
    without either.

    :raises InvalidFlavor:
    """
    pair = properties.pair("hw:cpu_thread_policy")
    named, trait = _named(pair), _trait(properties)
    if named and trait:
        raise conflict(f"a thread policy is not combined with the trait {_TRAIT}", *pair, trait)
    policy = named or (_BY_TRAIT.get(trait.value) if trait else None)
    if policy and cpu_policy == SHARED:
        raise conflict(
            "only dedicated CPUs have a thread policy",
            *pair,
            trait,
            *properties.sides("hw:cpu_policy", cpu_policy),
        )
    return policy or PREFER


def _named(pair: Pair) -> str | None:
    flavor, image = pair
    for side in filter(None, pair):
        side.one_of(THREAD_POLICIES)
    if flavor is None:
        return image.value if image else None
    if flavor.value != PREFER and image and image.value != flavor.value:
        raise pair.conflict("the image may not differ from the flavor, unless that says prefer")
    return flavor.value


def _trait(properties: Properties) -> Property | None:
    """The flavor's word on the trait, else the image's, which can only require it."""
    for side in properties.grouped("trait", _TRAIT):
        return side
    name = f"trait:{_TRAIT}"
    value = properties.image.properties.get(name)
    return Property(name, value) if value == "required" else None
