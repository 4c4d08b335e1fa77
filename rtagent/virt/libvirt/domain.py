"""Parse a domain document. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from lxml import etree
from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.cpuset import MAX_CPU
from rtagent.model.domain_usage import EVERY_KIND, UNBOUND, HostResource, Occupancy
from rtagent.model.units import BYTES_IN_KIB, BYTES_IN_MIB, round_up
from rtagent.virt.libvirt import backed_memory
from rtagent.virt.libvirt.document import (
    BadDocument,
    HostFacts,
    Unread,
    child,
    in_bytes,
    integer,
    numbers,
    parse,
)
from rtagent.virt.libvirt.given_devices import Given, readable_devices, unknown_past_libvirt
from rtagent.virt.libvirt.launch_security import encryption_model

#: The elements that pin threads of a domain.
_PINS = ("vcpupin", "emulatorpin", "iothreadpin")

#: The largest number that libvirt's API can return.
_MOST_VCPUS = 2**31 - 1


class Confinement(Value, frozen=True, kw_only=True):
    """:ivar cpusets: each set of host CPUs to which some of the domain's threads are pinned.
    :ivar vcpus: of these, the set of each vCPU that has one.
    :ivar memory: what is bound to host cells, or has pages of a size.
    :ivar given: devices passed through to the domain.
    :ivar mem_encryption: the model by which its memory is encrypted, or None.
    :ivar unknown: what may be more than these fields say.
    """

    cpusets: tuple[frozenset[int], ...] = ()
    vcpus: tuple[frozenset[int], ...] = ()
    memory: tuple[backed_memory.BackedMemory, ...] = ()
    given: Given = Given()
    mem_encryption: str | None = None
    unknown: frozenset[HostResource] = frozenset()

    def occupancy(self, host: HostFacts) -> Occupancy:
        """Return what this is on a host. A set that contains all of its CPUs is not counted as
        pinning. If it does not list a device, it is unknown which one that is. Of a host that was
        never read it is unknown where memory may be.
        """
        if self is NOWHERE:  # most domains
            return UNBOUND
        memory_mb, pages = backed_memory.memory_in_use(self.memory, host)
        lost = {HostResource.DEVICES} if self.given.missing(host) else set()
        if self.memory and not host.online:
            lost |= {HostResource.CELLS, HostResource.PAGES}
        return Occupancy(
            pcpus=frozenset[int]().union(*filter(host.confines, self.cpusets)),
            vcpus=tuple(filter(host.confines, self.vcpus)),
            memory_mb=memory_mb,
            pages=pages,
            devices=self.given.on_host(host),
            mdevs=self.given.mdevs - host.other_mdevs,
            mem_encryption=self.mem_encryption,
            unknown=self.unknown | lost,
            namespaces=self.given.namespaces_on(host),
        )


NOWHERE = Confinement()


def confinement(domain: etree._Element, unread: Unread) -> Confinement:
    """Return what the domain is bound to, as far as its document says.

    :param unread: what it does not say is added to it.
    """
    cpusets = tuple(dict.fromkeys(_cpusets(domain, unread)))
    memory = tuple(_placed_memory(domain, unread))
    given = readable_devices(domain, unread)
    for own, kind in unknown_past_libvirt(domain):
        why = BadDocument(f"more {kind} than the document says may come from QEMU's own {own!r}")
        unread.add(str(why), kind)
    model = next(unread.each(encryption_model, [domain], HostResource.ENCRYPTION), None)
    made = Confinement(
        cpusets=cpusets,
        vcpus=_vcpu_sets(domain) if cpusets else (),
        memory=memory,
        given=given,
        mem_encryption=model,
        unknown=frozenset(unread.kinds),
    )
    return NOWHERE if made == NOWHERE else made


def _placed_memory(domain: etree._Element, unread: Unread) -> Iterator[backed_memory.BackedMemory]:
    if backed_memory.is_placed(domain):  # most are not
        memory = backed_memory.guest_memory(domain, unread)
        yield from (each for each in (*memory.cells.values(), *memory.devices) if each.placed)


def _cpusets(domain: etree._Element, unread: Unread) -> Iterator[frozenset[int]]:
    tuned = child(domain, "cputune")
    pins = [] if tuned is None else list(tuned.iterchildren(*_PINS))
    # The set of <vcpu> is that of the threads without a pin.
    inherited = () if all_pinned(domain, pins) else domain.iterchildren("vcpu")
    cpusets = unread.each(cpuset, (*inherited, *pins), HostResource.CPUS)
    return (cpus for cpus in cpusets if cpus)


def cpuset(element: etree._Element) -> frozenset[int]:
    """Return the host CPUs to which an element pins a thread; empty: any.

    :raises BadDocument: it is no set of CPUs.
    """
    if element.get("placement") == "auto":  # libvirt chooses, whatever the set is
        return frozenset()
    return numbers(element.get("cpuset"), f"<{element.tag} cpuset>")


def default_cpuset(domain: etree._Element) -> frozenset[int]:
    """Return the host CPUs of the threads without a pin; empty: any.

    :raises BadDocument: as `cpuset`.
    """
    vcpu = domain.find("vcpu")
    return frozenset() if vcpu is None else cpuset(vcpu)


def vcpu_pins(domain: etree._Element) -> dict[int, frozenset[int]]:
    """Return the host CPUs of each vCPU that is plugged in and confined to some.

    :raises BadDocument: a set, or the number of a vCPU, is invalid.
    """
    pins = dict.fromkeys(_plugged_in(domain), default_cpuset(domain))
    for pin in domain.iterfind("cputune/vcpupin"):
        number = integer(pin.get("vcpu"), "<vcpupin vcpu>", MAX_CPU)
        if number in pins:
            pins[number] = cpuset(pin)
    return {number: cpus for number, cpus in pins.items() if cpus}


def _vcpu_sets(domain: etree._Element) -> tuple[frozenset[int], ...]:
    try:
        return tuple(vcpu_pins(domain).values())
    except BadDocument:  # then its vCPUs count as shared ones
        return ()


def _plugged_in(domain: etree._Element) -> Iterable[int]:
    """Return the vCPUs that can run. Others may be plugged in later."""
    listed = domain.findall("vcpus/vcpu")
    if listed:
        enabled = (each for each in listed if each.get("enabled") == "yes")
        return [integer(each.get("id"), "<vcpu id>", MAX_CPU) for each in enabled]
    vcpu = child(domain, "vcpu")
    number = "1" if vcpu is None else vcpu.get("current", vcpu.text)  # libvirt's default
    return range(integer(number, "<vcpu>", MAX_CPU))


def all_pinned(domain: etree._Element, pins: Sequence[etree._Element]) -> bool:
    """Return whether the emulator, each vCPU and each I/O thread has a pin. If it is unknown how
    many there are, one may have none.
    """
    if not pins:  # most domains
        return False
    pinned = Counter(pin.tag for pin in pins)
    try:
        return (
            pinned["emulatorpin"] > 0
            and pinned["vcpupin"] >= _number(domain, "vcpu")
            and pinned["iothreadpin"] >= _number(domain, "iothreads")
        )
    except BadDocument:
        return False


def _number(domain: etree._Element, name: str) -> int:
    element = child(domain, name)
    return 0 if element is None else integer(element.text, f"<{name}>", MAX_CPU)


class DomainFacts(Value, frozen=True, kw_only=True):
    """The accounted part of a domain document.

    :ivar vcpus: current vCPUs, without those that could be hot-plugged; None: unknown.
    :ivar memory_mb: memory usable without a hot-plug, in any state of the balloon; MB, rounded up.
        This is libvirt's ``<memory>`` and the statistics' ``balloon.maximum``, each without
        `excluded_kib`. None: unknown.
    :ivar excluded_kib: what libvirt counts as memory and is not memory of the host: persistent
        memory, and memory of SGX.
    :ivar files: paths of its own writable disks that are files.
    :ivar confinement: the host resources that it is bound to while it runs.
    :ivar problems: a text for each element that cannot be read.
    """

    vcpus: int | None
    memory_mb: int | None
    excluded_kib: int = 0
    files: tuple[str, ...] = ()
    confinement: Confinement = NOWHERE
    problems: tuple[str, ...] = ()


#: The facts of a domain of whose document nothing can be read.
UNREADABLE = DomainFacts(vcpus=None, memory_mb=None, confinement=Confinement(unknown=EVERY_KIND))


def parse_domain(document: str) -> DomainFacts:
    """Return the facts that can be read, and a problem for each element that cannot."""
    try:
        root = parse(document)
    except BadDocument as error:
        return replace(UNREADABLE, problems=(str(error),))
    if root.tag != "domain":
        problem = f"<{root.tag}> where <domain> is expected"
        return replace(UNREADABLE, problems=(problem,))
    unread = Unread()
    excluded = backed_memory.excluded_bytes(root, unread)
    return DomainFacts(
        vcpus=next(unread.each(_vcpus, [root]), None),
        memory_mb=next(unread.each(partial(_memory_mb, excluded=excluded), [root]), None),
        excluded_kib=excluded // BYTES_IN_KIB,
        files=_files(root),
        confinement=confinement(root, unread),
        problems=tuple(unread.problems),
    )


def _vcpus(root: etree._Element) -> int:
    vcpu = child(root, "vcpu")
    if vcpu is None:
        return 1  # libvirt's default
    return integer(vcpu.get("current", vcpu.text), "<vcpu>", _MOST_VCPUS)


def _memory_mb(root: etree._Element, excluded: int) -> int:
    memory = child(root, "memory")
    if memory is None or not memory.text:
        total = backed_memory.sum_bytes(root)
    else:
        total = in_bytes(memory, memory.text, "<memory>")
    return round_up(max(0, total - excluded), BYTES_IN_MIB)


def _files(root: etree._Element) -> tuple[str, ...]:
    return tuple(
        source.get("file", "")
        for disk in root.iterfind("devices/disk[@type='file']")
        if disk.get("device", "disk") == "disk" and disk.find("readonly") is None
        for source in disk.iterfind("source[@file]")
    )
