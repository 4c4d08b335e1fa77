"""Read the host's hardware through a connection."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import libvirt
import msgspec
from lxml import etree

from rtagent.model.base import Value
from rtagent.model.mem_encryption import AMD_SEV_ES, AMD_SEV_SNP, EncryptionCapacity
from rtagent.model.observation import Problem
from rtagent.model.topology import Cell, Topology
from rtagent.model.units import KIB_IN_MIB
from rtagent.ports import HostIdentity
from rtagent.virt.libvirt.capabilities import (
    HostCapabilities,
    Report,
    feature_names,
    parse_capabilities,
    parse_cells,
)
from rtagent.virt.libvirt.connection import Session, optional
from rtagent.virt.libvirt.document import BadDocument, parse, received
from rtagent.virt.libvirt.hostfile import (
    simulated_capabilities,
    simulated_features,
    simulated_hostname,
    simulated_tdx_keys,
)
from rtagent.virt.libvirt.launch_security import encryption_capacities
from rtagent.virt.libvirt.traits import domain_traits, driver_traits, host_traits

#: Machine types queried in addition to libvirt's default one, where the hypervisor has them: each
#: supports different firmware and buses, and a guest may use any machine type. The default one of
#: Arm is an old board without firmware in many releases.
_MACHINES = {
    **dict.fromkeys(("i686", "x86_64"), ("q35",)),
    **dict.fromkeys(("aarch64", "armv7l", "riscv64"), ("virt",)),
}
#: The kernel's figures of memory, and the one of its default size of large pages.
_MEMINFO = Path("/proc/meminfo")
_HUGEPAGE = re.compile(r"^Hugepagesize: *([1-9][0-9]{0,9}) kB$", re.MULTILINE)
#: The parameters of the kernel's module of KVM for AMD, and its count of keys for Intel TDX.
_KVM_AMD = Path("/sys/module/kvm_amd/parameters")
_CAPACITIES = Path("/sys/fs/cgroup/misc.capacity")
_TDX_KEYS = re.compile(r"^tdx ([0-9]{1,9})$", re.MULTILINE)


class HostRead(Value, frozen=True, kw_only=True):
    """The result of one read of the host.

    :ivar topology: without ``disk_mb``, which libvirt does not know.
    :ivar hugepage_kib: the size of large pages that the kernel takes by default; None: unknown.
    :ivar checked: values that are cheap to read; when they differ, the host is read again.
    :ivar odd: what was set aside, because it cannot be read.
    """

    identity: HostIdentity
    topology: Topology
    hugepage_kib: int | None
    checked: tuple[object, ...]
    odd: tuple[Problem, ...]


def check(session: Session) -> tuple[object, ...]:
    """Return node information and the map of online CPUs."""
    return (*session.virt.getInfo(), *session.virt.getCPUMap()[1])


def read_host(session: Session, file: Path | None) -> HostRead:
    """Read the whole host.

    :param file: the host file of a simulated host.
    :raises BadDocument: the capabilities document is invalid.
    """
    virt, checked = session.virt, check(session)
    document = simulated_capabilities(file) if file is not None else None
    described = document or received(virt.getCapabilities)
    capabilities = parse_capabilities(described)
    simulated = virt.getType() == "TEST"
    online = capabilities.cpus if document else _online(virt, simulated)
    odd: list[Problem] = []
    guests = tuple(_domain_capabilities(session, capabilities.arch, odd))
    features = _all_features(session, capabilities, odd)
    # The test driver reports other cells than those of its host file.
    has_cells = document is not None or not simulated
    cells = parse_cells(described, online, _report("host cells", odd)) if has_cells else ()
    return HostRead(
        identity=HostIdentity(
            hostname=(document and simulated_hostname(document)) or virt.getHostname(),
            host_uuid="" if simulated else capabilities.host_uuid,
        ),
        topology=Topology(
            cpus=online,
            memory_mb=virt.getInfo()[1],
            disk_mb=0,
            hypervisor_type=virt.getType(),
            hypervisor_version=virt.getVersion(),
            cpu_info={**capabilities.cpu_info, "features": sorted(features)},
            supported_hv_specs=capabilities.guests,
            traits=frozenset(_traits(virt, capabilities, features, guests)),
            mem_encryption=_mem_encryption(virt, document, guests, odd),
            cells=tuple(map(_with_steady_pages, cells)),
        ),
        hugepage_kib=_smallest_hugepage(cells) if simulated else default_hugepage(virt.getURI()),
        checked=checked,
        odd=tuple(odd),
    )


def _with_steady_pages(cell: Cell) -> Cell:
    """Compute the pages of the smallest size from the cell's MB: libvirt's count of these pages
    changes with each page that Linux allocates or frees.
    """
    if not cell.pages:
        return cell
    smallest, *others = sorted(cell.pages)
    rest = cell.memory_mb * KIB_IN_MIB - sum(cell.pages[size] * size for size in others)
    pages = {**cell.pages, smallest: max(0, rest // smallest)}
    return msgspec.structs.replace(cell, pages=pages)


def _smallest_hugepage(cells: Iterable[Cell]) -> int | None:
    """Return the default size of a simulated host: the smallest of its large pages."""
    sizes = sorted({size for cell in cells for size in cell.pages})
    return next(iter(sizes[1:]), None)


def default_hugepage(uri: str) -> int | None:
    """Return the default size (KiB) of the large pages of the kernel on which libvirt runs.

    :returns: None: it is on another machine, or the kernel has no large pages.
    """
    return _figure(uri, _MEMINFO, _HUGEPAGE)


def _figure(uri: str, file: Path, pattern: re.Pattern[str]) -> int | None:
    """Return a figure of the kernel on which libvirt runs; None: it is on another machine, or does
    not say it.
    """
    if urlsplit(uri).netloc:
        return None
    try:
        said = pattern.search(file.read_text())
    except OSError:
        return None
    return int(said[1]) if said else None


def _online(virt: libvirt.virConnect, simulated: bool) -> frozenset[int]:
    if simulated:  # the test driver's CPU map does not depend on the host file
        return frozenset(range(virt.getInfo()[2]))
    _, online, _ = virt.getCPUMap()
    return frozenset(number for number, there in enumerate(online) if there)


def refused_encryption(uri: str, parameters: Path = _KVM_AMD) -> frozenset[str]:
    """Return the models of memory encryption that the kernel refuses although libvirt reports them:
    it asks the CPU and QEMU. With SEV-SNP, the kernel starts no guest with SEV-ES (LP2157891).

    :param parameters: of the kernel on which libvirt runs, if that is this machine.
    """
    if urlsplit(uri).netloc or not parameters.is_dir():
        return frozenset()
    snp = _is_on(parameters / "sev_snp")
    runs = {AMD_SEV_ES: _is_on(parameters / "sev_es") and not snp, AMD_SEV_SNP: snp}
    return frozenset(model for model, starts in runs.items() if not starts)


def _is_on(parameter: Path) -> bool:
    try:
        return parameter.read_text().strip() in ("Y", "1")
    except OSError:  # an older kernel, which does not have it
        return False


def tdx_keys(uri: str, capacities: Path = _CAPACITIES) -> int | None:
    """Return how many guests with Intel TDX the kernel on which libvirt runs can have.

    :param capacities: the file in which it says it. :returns: None: it is on another machine, or
        does not say it.
    """
    return _figure(uri, capacities, _TDX_KEYS)


def _report(item: str, odd: list[Problem]) -> Report:
    return lambda message: odd.append(Problem(item=item, message=message))


@contextmanager
def _readable(item: str, odd: list[Problem]) -> Iterator[None]:
    """Set aside what cannot be read."""
    try:
        yield
    except BadDocument as error:
        _report(item, odd)(str(error))


def _mem_encryption(
    virt: libvirt.virConnect,
    simulated: bytes | None,
    guests: Sequence[etree._Element],
    odd: list[Problem],
) -> tuple[EncryptionCapacity, ...]:
    """Return the models of memory encryption, which each machine type reports alike.

    :param simulated: the capabilities document of a simulated host, which has them itself.
    """
    described = [part for guest in guests if (part := guest.find("features")) is not None]
    refused, keys = frozenset[str](), None
    if simulated is not None:
        described = [simulated_features(simulated)]
        with _readable("memory encryption", odd):
            keys = simulated_tdx_keys(described[0])
    elif virt.getType() != "TEST":
        refused, keys = refused_encryption(virt.getURI()), tdx_keys(virt.getURI())
    capacities: dict[str, EncryptionCapacity] = {}
    for features in described:
        with _readable("memory encryption", odd):
            models = encryption_capacities(features, refused, keys)
            capacities |= {capacity.model: capacity for capacity in models}
    return tuple(capacities.values())


def _traits(
    virt: libvirt.virConnect,
    capabilities: HostCapabilities,
    features: frozenset[str],
    guests: Sequence[etree._Element],
) -> Iterator[str]:
    arches = {arch for arch, _, _ in capabilities.guests}
    yield from driver_traits(virt.getType(), virt.getLibVersion(), virt.getVersion(), arches)
    yield from host_traits(capabilities, features)
    for document in guests:
        yield from domain_traits(document)


def _domain_capabilities(
    session: Session, arch: str, odd: list[Problem]
) -> Iterator[etree._Element]:
    """Yield the capabilities of guests of each machine type that the hypervisor has."""
    virt = session.virt
    for machine in (None, *_MACHINES.get(arch, ())):
        with optional(session), _readable(f"guests of type {machine or 'default'}", odd):
            yield parse(received(partial(virt.getDomainCapabilities, None, arch, machine, None, 0)))


def _all_features(
    session: Session, capabilities: HostCapabilities, odd: list[Problem]
) -> frozenset[str]:
    """Return the CPU's features, including those that its model implies if libvirt knows them."""
    expand = libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
    listed = feature_names(parse(capabilities.cpu))
    with optional(session), _readable("features of the CPU", odd):
        whole = received(lambda: session.virt.baselineCPU([capabilities.cpu], expand))
        return listed | feature_names(parse(whole))
    return listed
