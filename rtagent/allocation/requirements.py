"""The requirements of a request, derived from its flavor, its image and its own documents."""

from collections import Counter
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from rtagent.errors import InvalidPciRequest
from rtagent.model.base import Value
from rtagent.model.claim import LIVE_MIGRATION, MIGRATION, RESIZE
from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_SNP, INTEL_TDX, MODELS
from rtagent.model.migration import MoveRequest
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest, ExtraResource, Flavor, Instance, Limits, NumaLimits
from rtagent.model.units import MB_IN_GB, round_up
from rtagent.model.usage import Usage
from rtagent.numa.host_cells import CellLimits, cell_limits
from rtagent.numa.properties import Pair, Properties, Property, conflict, overriding
from rtagent.numa.requirements import NumaRequirements, numa_requirements
from rtagent.pci.assigned_resources import ResourceRequest
from rtagent.pci.pmem import pmem_request
from rtagent.pci.requests import DeviceRequest, device_requests, requests_of_move
from rtagent.pci.resource_groups import ResourceGroup

ENCRYPTION, MODEL = "hw:mem_encryption", "hw:mem_encryption_model"
FIRMWARE, MACHINE = "hw:firmware_type", "hw:machine_type"
STATELESS, VIDEO = "hw:firmware_stateless", "hw:video_model"
#: Models whose guests have no variable store of UEFI, which the host could change.
_STATELESS = frozenset({AMD_SEV_SNP, INTEL_TDX})


def requested_encryption(properties: Properties) -> str | None:
    """Return the model of encryption that a guest requests; None: none.

    The firmware must be UEFI and the machine type q35. The machine type may be unset: then the
    caller chooses it. Of two models, the firmware must be stateless, too; with Intel TDX, the guest
    must have no video device (Nova's ``MemEncryptionConfig``).

    :raises PropertyInvalid: the model is unknown.
    :raises PropertyConflict: the firmware, the machine type or the video device does not support
        it, or only a model is requested.
    :raises FlavorImageConflict: the flavor and the image differ.
    """
    asked = properties.pair(ENCRYPTION)
    requested = _requested(asked)
    model = properties.agreed(MODEL)
    if model is not None:
        model.one_of(MODELS)
    if not requested:
        if model is not None:
            rule = f"a model of memory encryption needs {ENCRYPTION}, or the image property, = true"
            raise conflict(rule, model, *asked)
        return None
    _check_machine(properties, asked)
    if model is None:
        return AMD_SEV
    stateless, video = properties.pair(STATELESS).image, properties.pair(VIDEO).image
    if model.value in _STATELESS and not (stateless and stateless.boolean()):
        raise conflict("this model needs hw_firmware_stateless=true", model, stateless)
    if model.value == INTEL_TDX and (video is None or video.value != "none"):
        raise conflict("this model needs hw_video_model=none", model, video)
    return model.value


def _requested(asked: Pair) -> bool:
    answers = {each.boolean() for each in asked if each is not None}
    if len(answers) > 1:
        raise overriding("the flavor and the image must agree on memory encryption", *asked)
    return True in answers


def _check_machine(properties: Properties, asked: Pair) -> None:
    firmware, machine = properties.pair(FIRMWARE).image, properties.pair(MACHINE).image
    if firmware is None or firmware.value != "uefi":
        raise conflict("memory encryption needs hw_firmware_type=uefi", *asked, firmware)
    if machine is not None and "q35" not in machine.value:
        raise conflict("memory encryption needs the machine type q35", *asked, machine)


#: Resource classes that are counted, here or in `NumaRequirements`. For any other class, a claim
#: gets units with identifiers.
COUNTED_CLASSES = frozenset({"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"})
#: The extra spec that says whether numbered groups need providers of their own.
GROUP_POLICY, GROUP_POLICIES = "group_policy", ("none", "isolate")


class Requirements(Value, frozen=True, kw_only=True):
    """The requirements of a new claim.

    :ivar usage: what the claim adds to its owner's: shared vCPUs, dedicated CPUs, memory, and disk
        of the host's own. :ivar numa: CPUs, cells and pages.
    :ivar limits: the maximum usage of all guests and the host together, by field of `Usage`. A
        field that is absent is limited by the capacity that the host advertises.
    :ivar cell_limits: how far one host cell may be overcommitted. :ivar devices: PCI devices.
    :ivar assigned_resources: by resource class, for all other classes: the number of units, or
        their identifiers.
    :ivar numbered: the flavor's numbered groups, as far as `assigned_resources` has their classes.
    :ivar allocated: by resource class that is counted: what an allocation in Placement has for this
        request. ``resources:CLASS`` in the flavor overrides what the flavor itself says.
    :ivar mem_encryption: the model by which the guest's memory is encrypted, or None.
    """

    usage: Usage
    numa: NumaRequirements
    limits: Mapping[str, int] = {}
    cell_limits: CellLimits = CellLimits()
    devices: tuple[DeviceRequest, ...] = ()
    assigned_resources: Mapping[str, ResourceRequest] = {}
    numbered: tuple[ResourceGroup, ...] = ()
    allocated: Mapping[str, int] = {}
    mem_encryption: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether sums over all guests decide alone: no cells, CPUs, devices or units of its own
        are requested.
        """
        return not any(
            (
                *(self.numa.cells, self.numa.pcpus, self.numa.realtime, self.devices, self.limits),
                *(self.assigned_resources, self.mem_encryption),
            )
        )


def from_request(
    request: BuildRequest,
    policy: Policy,
    requests_of: Callable[..., tuple[DeviceRequest, ...]] = device_requests,
) -> Requirements:
    """Derive the requirements of a build.

    Disk is counted exactly: the root disk (none if it is a volume), the ephemeral disk and swap.

    :param requests_of: makes device requests of the flavor and of the request's documents.
    :raises InvalidFlavor: the flavor and the image contradict each other or themselves.
    :raises InvalidPciRequest: a device request or ``hw:pmem`` is malformed.
    :raises PciRequestAliasNotDefined:
    """
    instance, flavor, limits = request.instance, request.instance.flavor, request.limits or Limits()
    extra, ratios = request.extra_resource or {}, limits.numa_topology or NumaLimits()
    grouped = _in_request_groups(flavor)
    numa = numa_of(flavor, instance.image.properties)
    if ratios.network_metadata is not None:
        numa = replace(numa, networks=ratios.network_metadata)
    devices = requests_of(
        flavor, instance.pci_requests, policy.pci.aliases, numa.pci_numa_affinity_policy
    )
    pmem, disk_mb = pmem_request(flavor), local_disk_mb(instance)
    own = Usage(vcpus=numa.vcpus, pcpus=numa.pcpus, memory_mb=flavor.memory_mb, disk_mb=disk_mb)
    return Requirements(
        usage=Usage(
            vcpus=own.vcpus + _number(extra, "VCPU"),
            pcpus=own.pcpus,
            memory_mb=own.memory_mb + _number(extra, "MEMORY_MB"),
            disk_mb=own.disk_mb + _number(extra, "DISK_GB") * MB_IN_GB,
        ),
        numa=numa,
        limits=_limits(limits),
        cell_limits=cell_limits(ratios.cpu_allocation_ratio, ratios.ram_allocation_ratio, policy),
        devices=devices,
        assigned_resources=_assigned_resources(pmem, grouped, extra),
        numbered=_numbered_groups(flavor),
        allocated=_allocated(own, grouped, extra),
        mem_encryption=requested_encryption(_properties(instance)),
    )


def numa_of(flavor: Flavor, image: Mapping[str, str]) -> NumaRequirements:
    """Return the CPUs, cells and pages that a guest requires.

    :param image: its properties.
    :raises InvalidFlavor: the flavor and the image contradict each other or themselves.
    """
    return numa_requirements(flavor.vcpus, flavor.memory_mb, flavor.extra_specs, image)


def requests_for(kind: str) -> Callable[..., tuple[DeviceRequest, ...]]:
    """Return the function that makes the device requests of a claim.

    A resize or a cold migration keeps the device requests of ports only; the others are those of
    the new flavor.
    """
    return requests_of_move if kind in (RESIZE, MIGRATION) else device_requests


def from_move(request: MoveRequest, policy: Policy) -> Requirements:
    """Derive the requirements of a guest that comes from another host or changes its size.

    A live migration keeps the page sizes that the guest has at its source.

    :raises InvalidFlavor: InvalidPciRequest: PciRequestAliasNotDefined: as `from_request`.
    """
    required = from_request(request.build, policy, requests_for(request.kind))
    if request.kind != LIVE_MIGRATION:
        return required
    if required.mem_encryption is not None:
        asked = _properties(request.build.instance).pair(ENCRYPTION)
        raise conflict("a guest with encrypted memory cannot be migrated while it runs", *asked)
    return replace(required, numa=required.numa.with_page_sizes(request.source.page_sizes))


def _properties(instance: Instance) -> Properties:
    """Return the properties of a guest, of its flavor and of its image."""
    flavor = instance.flavor
    return Properties(
        vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mb,
        extra_specs=flavor.extra_specs,
        image=instance.image.properties,
    )


def _in_request_groups(flavor: Flavor) -> Mapping[str, int]:
    """Return the sum of ``resources:CLASS`` and ``resources<group>:CLASS``, by class.

    :raises PropertyInvalid: a number is not an integer.
    """
    sums = Counter[str]()
    for key, _, name, value in flavor.in_request_groups:
        sums[name] += Property(key, value).integer(least=0)
    return sums


def _numbered_groups(flavor: Flavor) -> tuple[ResourceGroup, ...]:
    """Return the numbered groups, with the classes that are not counted.

    :raises PropertyInvalid: ``group_policy`` is neither none nor isolate.
    """
    groups: dict[str, dict[str, int]] = {}
    for _, suffix, name, value in flavor.in_request_groups:
        if suffix and name not in COUNTED_CLASSES and int(value):
            groups.setdefault(suffix, {})[name] = int(value)
    if not groups:
        return ()
    policy = Property(GROUP_POLICY, flavor.extra_specs.get(GROUP_POLICY, "none"))
    isolated = policy.one_of(GROUP_POLICIES) == "isolate"
    return tuple(
        ResourceGroup(quantities=groups[suffix], isolated=isolated) for suffix in sorted(groups)
    )


def local_disk_mb(instance: Instance) -> int:
    """Return the local disk of a guest in MB."""
    flavor = instance.flavor
    root_gb = 0 if instance.is_volume_backed else flavor.root_gb
    return (root_gb + flavor.ephemeral_gb) * MB_IN_GB + flavor.swap


def _allocated(own: Usage, grouped: Mapping[str, int], extra: ExtraResource) -> dict[str, int]:
    """Return what an allocation has of each class that is counted.

    :param own: what the guest's own properties say.
    :param grouped: the quantities of the flavor's request groups. They override the guest's own, as
        in Nova; PCPU must be the same in both, and a mixed guest has its own of VCPU. A flavor that
        names PCPU, even 0, names all of its CPUs.
    """
    if own.vcpus and own.pcpus:
        grouped = {**grouped, "VCPU": own.vcpus}
    elif "PCPU" in grouped:
        grouped = {"VCPU": 0, **grouped}
    numbers = {
        "VCPU": own.vcpus,
        "MEMORY_MB": own.memory_mb,
        "DISK_GB": round_up(own.disk_mb, MB_IN_GB),
    }
    return {
        "PCPU": own.pcpus,
        **{n: grouped.get(n, number) + _number(extra, n) for n, number in numbers.items()},
    }


def _limits(limits: Limits) -> dict[str, int]:
    disk = None if limits.disk_gb is None else limits.disk_gb * MB_IN_GB
    by_field = {"vcpus": limits.vcpu, "memory_mb": limits.memory_mb, "disk_mb": disk}
    return {field: limit for field, limit in by_field.items() if limit is not None}


def _number(extra: ExtraResource, resource: str) -> int:
    wanted = extra.get(resource, 0)
    return wanted if isinstance(wanted, int) else 0


def _assigned_resources(
    pmem: Mapping[str, int], grouped: Mapping[str, int], extra: ExtraResource
) -> dict[str, ResourceRequest]:
    """Return the requested number or identifiers of each resource class that is not counted.

    Numbers of one class add up. Units that the request names count towards the number that the
    flavor requests, and may exceed it.

    :param pmem: the numbers that ``hw:pmem`` asks for.
    :param grouped: the quantities of the flavor's request groups.
    :raises InvalidPciRequest: fewer units are named than the flavor asks for.
    """
    numbers = Counter(pmem)
    for resource, number in grouped.items():
        if number and resource not in COUNTED_CLASSES:
            numbers[resource] += number
    named: dict[str, tuple[str, ...]] = {}
    for resource, wanted in extra.items():
        if not isinstance(wanted, int):
            named[resource] = wanted
        elif resource not in COUNTED_CLASSES - {"PCPU"}:
            numbers[resource] += wanted
    for resource, identifiers in named.items():
        if len(identifiers) < numbers[resource]:
            raise InvalidPciRequest(
                where=f"extra_resource {resource}",
                value=", ".join(identifiers),
                rule=f"the flavor asks for {numbers[resource]}",
            )
    return {**numbers, **named}
