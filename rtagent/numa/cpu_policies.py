"""The CPU policies of a guest: which of its vCPUs are dedicated, which are realtime, how they use
thread siblings, where its emulator's threads run, and which CPU topology it sees."""

import itertools
from collections.abc import Iterator

from rtagent.model.assignment import CpuTopology
from rtagent.numa.properties import Pair, Properties, Property, conflict, overriding

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

_PARTS = ("sockets", "cores", "threads")
#: No limit, and no preference.
_UNSET = 0


def cpu_policy(properties: Properties) -> str:
    """Return ``hw:cpu_policy``, or what ``resources:VCPU`` and ``resources:PCPU`` imply.

    :raises InvalidFlavor: these contradict each other, or the image may not override the flavor.
    """
    flavor, image = pair = properties.typed("hw:cpu_policy")
    for setting in filter(None, pair):
        setting.one_of(CPU_POLICIES)
    if flavor and image and image.value in _FORBIDDEN[flavor.value]:
        raise pair.conflict(f"the image may not ask for {image.value} CPUs with this flavor")
    policy = flavor or image
    vcpus, pcpus = requested_cpus(properties, "VCPU"), requested_cpus(properties, "PCPU")
    if policy and (vcpus or pcpus):
        rule = "a CPU policy cannot be combined with resources:VCPU or resources:PCPU"
        raise conflict(rule, *cpu_policy_sources(properties))
    if vcpus and pcpus:
        rule = "resources:VCPU and resources:PCPU cannot be combined"
        raise conflict(rule, *cpu_policy_sources(properties))
    if pcpus:
        return DEDICATED
    return policy.value if policy else SHARED


def cpu_policy_sources(properties: Properties) -> tuple[Property, ...]:
    """Return the properties that set the CPU policy, for an error; none for the default policy."""
    requested = (
        *properties.in_request_groups("resources", "VCPU"),
        *properties.in_request_groups("resources", "PCPU"),
    )
    return (*filter(None, properties.pair("hw:cpu_policy")), *requested)


def requested_cpus(properties: Properties, name: str) -> int:
    """Return the sum of ``resources:VCPU`` or ``resources:PCPU`` over the request groups."""
    counts = properties.in_request_groups("resources", name)
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
            "a thread policy requires dedicated CPUs", *pair, trait, *cpu_policy_sources(properties)
        )
    return policy or PREFER


def _named_thread_policy(pair: Pair) -> str | None:
    flavor, image = pair
    for setting in filter(None, pair):
        setting.one_of(THREAD_POLICIES)
    if flavor is None:
        return image.value if image else None
    if flavor.value != PREFER and image and image.value != flavor.value:
        raise pair.conflict("the image may differ from the flavor only where that says prefer")
    return flavor.value


def _trait(properties: Properties) -> Property | None:
    """Return the setting of the trait in the flavor, else in the image. An image can only require
    it.
    """
    for setting in properties.in_request_groups("trait", _TRAIT):
        return setting
    name = f"trait:{_TRAIT}"
    value = properties.image.get(name)
    return Property(name, value) if value == "required" else None


def emulator_threads_policy(properties: Properties, cpu_policy: str) -> str | None:
    """Return ``hw:emulator_threads_policy``, which only the flavor may set; None: the emulator's
    threads run with the guest's vCPUs.

    :raises InvalidFlavor: it is not a policy, or there are no dedicated vCPUs to isolate it from.
    """
    setting = properties.extra_spec("hw:emulator_threads_policy")
    if setting is None:
        return None
    policy = setting.one_of(EMULATOR_THREADS_POLICIES)
    if policy == EMULATOR_ISOLATE and cpu_policy == SHARED:
        raise conflict(
            "an isolated emulator requires dedicated CPUs", setting, *cpu_policy_sources(properties)
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
        raise conflict("realtime CPUs must be dedicated", enabled, *cpu_policy_sources(properties))
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


def cpu_topology(properties: Properties) -> CpuTopology:
    """Return the CPU topology that the flavor and the image prefer.

    It satisfies as many as possible of ``hw:cpu_sockets``, ``hw:cpu_cores`` and ``hw:cpu_threads``,
    within the limits ``hw:cpu_max_sockets``, ``hw:cpu_max_cores`` and ``hw:cpu_max_threads``. Of
    several such topologies, the one with the fewest threads is returned, then the one with the most
    sockets (Nova's order).

    :raises InvalidFlavor: the image exceeds a limit, or no topology is within the limits.
    """
    limits = tuple(_limit(properties, f"hw:cpu_max_{part}") for part in _PARTS)
    preferred = _preferred(properties, limits)
    possible = tuple(_within(properties.vcpus, limits))
    if not possible:
        raise conflict(
            "no arrangement of the vCPUs is within these limits",
            properties.flavor_vcpus,
            *(setting for part in _PARTS for setting in properties.given(f"hw:cpu_max_{part}")),
        )
    sockets, cores, threads = max(possible, key=lambda counts: _rank(counts, preferred))
    return CpuTopology(sockets=sockets, cores=cores, threads=threads)


def _limit(properties: Properties, name: str) -> int:
    """Return the limit of the image if it sets one, else the flavor's. The image may only lower the
    limit.
    """
    pair = properties.given(name)
    flavor, image = map(_number, pair)
    if flavor and image > flavor:
        raise pair.conflict("the image may only lower the flavor's limit")
    return image or flavor


def _preferred(properties: Properties, limits: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of sockets, cores and threads that the image prefers.

    If the image has no preference, the flavor's preference applies, except for a part that exceeds
    a limit (the image may have lowered the limit).

    :raises FlavorImageConflict: a preference of the image exceeds a limit.
    """
    pairs = [properties.given(f"hw:cpu_{part}") for part in _PARTS]
    flavor = tuple(_number(pair.flavor) for pair in pairs)
    image = tuple(_number(pair.image) for pair in pairs)
    for part, preference, limit, pair in zip(_PARTS, image, limits, pairs, strict=True):
        if limit and preference > limit:
            raise overriding(
                f"the image may not ask for more {part} than its own or the flavor's limit",
                pair.image,
                *properties.given(f"hw:cpu_max_{part}"),
            )
    if any(image):
        return image
    exceeds = any(
        limit and preference > limit for preference, limit in zip(flavor, limits, strict=True)
    )
    return (_UNSET,) * 3 if exceeds else flavor


def _within(vcpus: int, limits: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    most = tuple(limit or vcpus for limit in limits)
    divisors = [number for number in range(1, vcpus + 1) if vcpus % number == 0]
    for sockets, cores in itertools.product(divisors, divisors):
        threads, rest = divmod(vcpus, sockets * cores)
        if not rest and sockets <= most[0] and cores <= most[1] and threads <= most[2]:
            yield sockets, cores, threads


def _rank(counts: tuple[int, int, int], preferred: tuple[int, ...]) -> tuple[int, int, int]:
    sockets, cores, _ = counts
    met = sum(has == preference for has, preference in zip(counts, preferred, strict=True))
    return met, sockets * cores, sockets


def _number(setting: Property | None) -> int:
    return setting.integer() if setting else _UNSET
