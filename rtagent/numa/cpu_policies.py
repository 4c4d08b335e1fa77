"""The CPU policies of a guest: which of its vCPUs are dedicated, which are realtime, how they use
thread siblings, and where its emulator's threads run."""

from __future__ import annotations

from rtagent.numa.properties import Pair, Properties, Property, conflict

#: CPU policies. shared: vCPUs float on the shared host CPUs. dedicated: each vCPU has its own host
#: CPU. mixed: some vCPUs have their own host CPU, and the others float.
SHARED, DEDICATED, MIXED = CPU_POLICIES = ("shared", "dedicated", "mixed")

#: Thread policies. prefer: dedicated vCPUs are placed on thread siblings if some are free, else on
#: other threads. isolate: one vCPU on a core, whose other threads stay unused. require: thread
#: siblings only.
PREFER, ISOLATE, REQUIRE = THREAD_POLICIES = ("prefer", "isolate", "require")

#: Policies for the emulator's threads. share: they run on the host's shared CPUs, if it has any.
#: isolate: they run on one more host CPU, which is assigned with those of guest cell 0.
EMULATOR_SHARE, EMULATOR_ISOLATE = EMULATOR_THREADS_POLICIES = ("share", "isolate")

#: The CPU policies that an image must not request, by the policy of the flavor. The flavor
#: overrides all other policies of the image.
_FORBIDDEN = {SHARED: (DEDICATED, MIXED), MIXED: (DEDICATED,), DEDICATED: ()}

_TRAIT = "HW_CPU_HYPERTHREADING"
_BY_TRAIT = {"required": REQUIRE, "forbidden": ISOLATE}


def cpu_policy(properties: Properties) -> str:
    """Return ``hw:cpu_policy``, or what ``resources:VCPU`` and ``resources:PCPU`` imply.

    :raises InvalidFlavor: these contradict each other, or the image may not override the flavor.
    """
    flavor, image = pair = properties.typed("hw:cpu_policy")
    for found in filter(None, pair):
        found.one_of(CPU_POLICIES)
    if flavor and image and image.value in _FORBIDDEN[flavor.value]:
        raise pair.conflict(f"the image may not ask for {image.value} CPUs with this flavor")
    vcpus = tuple(properties.in_request_groups("resources", "VCPU"))
    pcpus = tuple(properties.in_request_groups("resources", "PCPU"))
    if (flavor or image) and (_total(vcpus) or _total(pcpus)):
        raise conflict(
            "a CPU policy cannot be combined with resources:VCPU or resources:PCPU",
            *pair,
            *vcpus,
            *pcpus,
        )
    if _total(vcpus) and _total(pcpus):
        raise conflict("resources:VCPU and resources:PCPU cannot be combined", *vcpus, *pcpus)
    if _total(pcpus):
        return DEDICATED
    policy = flavor or image
    return policy.value if policy else SHARED


def cpu_policy_sources(properties: Properties) -> tuple[Property, ...]:
    """Return the properties that set the CPU policy, for an error; none for the default policy."""
    requested = (
        *properties.in_request_groups("resources", "VCPU"),
        *properties.in_request_groups("resources", "PCPU"),
    )
    return (*filter(None, properties.pair("hw:cpu_policy")), *requested)


def requested_pcpus(properties: Properties) -> int:
    """Return the sum of ``resources:PCPU`` over the request groups; 0 without any."""
    return _total(tuple(properties.in_request_groups("resources", "PCPU")))


def _total(counts: tuple[Property, ...]) -> int:
    return sum(count.integer(least=0) for count in counts)


def thread_policy(properties: Properties, cpu_policy: str) -> str:
    """Return ``hw:cpu_thread_policy``, or what the trait HW_CPU_HYPERTHREADING means; else
    ``prefer``.

    :raises InvalidFlavor: both are set, there are no dedicated vCPUs, or the image may not override
        the flavor.
    """
    pair = properties.typed("hw:cpu_thread_policy")
    named, trait = _named_thread_policy(pair), _trait(properties)
    if named and trait:
        raise conflict(f"a thread policy cannot be combined with the trait {_TRAIT}", *pair, trait)
    policy = named or (_BY_TRAIT.get(trait.value) if trait else None)
    if policy and cpu_policy == SHARED:
        raise conflict(
            "a thread policy requires dedicated CPUs",
            *pair,
            trait,
            *cpu_policy_sources(properties),
        )
    return policy or PREFER


def _named_thread_policy(pair: Pair) -> str | None:
    flavor, image = pair
    for found in filter(None, pair):
        found.one_of(THREAD_POLICIES)
    if flavor is None:
        return image.value if image else None
    if flavor.value != PREFER and image and image.value != flavor.value:
        raise pair.conflict("the image may differ from the flavor only where that says prefer")
    return flavor.value


def _trait(properties: Properties) -> Property | None:
    """Return the setting of the trait in the flavor, else in the image. An image can only require
    it.
    """
    for found in properties.in_request_groups("trait", _TRAIT):
        return found
    name = f"trait:{_TRAIT}"
    value = properties.image.get(name)
    return Property(name, value) if value == "required" else None


def emulator_threads_policy(properties: Properties, cpu_policy: str) -> str | None:
    """Return ``hw:emulator_threads_policy``, which only the flavor may set; None: the emulator's
    threads run with the guest's vCPUs.

    :raises InvalidFlavor: it is not a policy, or there are no dedicated vCPUs to isolate it from.
    """
    found = properties.extra_spec("hw:emulator_threads_policy")
    if found is None:
        return None
    policy = found.one_of(EMULATOR_THREADS_POLICIES)
    if policy == EMULATOR_ISOLATE and cpu_policy == SHARED:
        raise conflict(
            "an isolated emulator requires dedicated CPUs",
            found,
            *cpu_policy_sources(properties),
        )
    return policy


def realtime_cpus(
    properties: Properties, cpu_policy: str, emulator_threads_policy: str | None
) -> frozenset[int]:
    """Return the vCPUs with the realtime scheduler.

    These are the vCPUs that ``hw:cpu_realtime_mask`` selects (the image's mask overrides the
    flavor's). At least one vCPU must not be realtime, unless the emulator's threads run elsewhere:
    next to realtime vCPUs only, they would starve.

    :raises InvalidFlavor: there are no such vCPUs, or too many.
    """
    enabled = properties.extra_spec("hw:cpu_realtime")
    if enabled is None or not enabled.boolean():
        return frozenset()
    if cpu_policy == SHARED:
        raise conflict(
            "realtime CPUs must be dedicated",
            enabled,
            *cpu_policy_sources(properties),
        )
    vcpus = frozenset(range(properties.vcpus))
    flavor, image = properties.pair("hw:cpu_realtime_mask")
    mask = image or flavor
    realtime = _masked(mask, vcpus) if mask else vcpus
    if not realtime or (realtime == vcpus and emulator_threads_policy is None):
        raise conflict(
            "some vCPUs must be realtime and, unless hw:emulator_threads_policy is set, some not",
            enabled,
            mask,
            properties.flavor_vcpus,
        )
    return realtime


def dedicated_cpus(
    properties: Properties, cpu_policy: str, realtime: frozenset[int]
) -> frozenset[int]:
    """Return the dedicated vCPUs: those with their own host CPU.

    Those of a mixed guest are in ``hw:cpu_dedicated_mask``; without that mask they are the realtime
    vCPUs.

    :raises InvalidFlavor: the mask does not fit the CPU policy or the realtime vCPUs.
    """
    mask = properties.extra_spec("hw:cpu_dedicated_mask")
    policy = cpu_policy_sources(properties)
    if mask and cpu_policy != MIXED:
        raise conflict("a mask of dedicated CPUs requires the CPU policy mixed", mask, *policy)
    if mask and realtime:
        enabled = properties.extra_spec("hw:cpu_realtime")
        raise conflict("realtime CPUs are dedicated: only one mask can be set", mask, enabled)
    if cpu_policy == MIXED and not (mask or realtime):
        raise conflict("mixed CPUs require hw:cpu_dedicated_mask or hw:cpu_realtime_mask", *policy)
    vcpus = frozenset(range(properties.vcpus))
    if not mask:
        return {SHARED: frozenset[int](), MIXED: realtime, DEDICATED: vcpus}[cpu_policy]
    dedicated = _masked(mask, vcpus)
    if not dedicated or dedicated == vcpus:
        raise conflict("some vCPUs must be dedicated, and some not", mask, properties.flavor_vcpus)
    return dedicated


def _masked(mask: Property, vcpus: frozenset[int]) -> frozenset[int]:
    """Apply a mask. A mask that begins with ``^`` excludes vCPUs from all vCPUs; any other mask
    lists the vCPUs.
    """
    excludes = mask.value.strip().startswith("^")
    cpus = mask.cpus(vcpus if excludes else frozenset())
    if not cpus <= vcpus:
        raise mask.invalid(f"the guest has no vCPUs beyond {len(vcpus) - 1}")
    return cpus
