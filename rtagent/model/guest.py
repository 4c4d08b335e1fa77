"""Guests as they are found on the host: their layouts, as claims need them, and adoption."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal

from rtagent.model.assignment import AssignedQuantity, AssignedResource, Assignment, CpuTopology
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.device import AssignedDevice, Mdev
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.migration import DEST, MigrationFacts, Role
from rtagent.model.request import Flavor, Image, Instance


class GuestCell(Value, frozen=True, kw_only=True):
    """One guest cell. A guest without cells has one, with everything.

    :ivar vcpus: its vCPUs. :ivar memory_mb: MB, rounded up.
    :ivar host: the host cell that its memory is bound to; None: to none, or to several.
    :ivar pagesize: KiB, if its document asks for pages of a size; None: ordinary memory.
    """

    vcpus: frozenset[int]
    memory_mb: int
    host: int | None = None
    pagesize: int | None = None


class ServerMetadata(Value, frozen=True, kw_only=True):
    """What Nova's metadata in a domain document says about the server.

    :ivar is_volume_backed: its root disk is a volume.
    """

    name: str = ""
    project_id: str | None = None
    user_id: str | None = None
    flavor: Flavor | None = None
    image: Image = Image()
    is_volume_backed: bool = False


class GuestLayout(Value, frozen=True, kw_only=True):
    """A domain, as it was read alone.

    :ivar usage: its usage, as an audit records it.
    :ivar problem: why its document cannot be read, or has something that no claim describes; "":
        it can be described. Without a readable document only `usage` is filled in.
    :ivar pins: the host CPUs of each vCPU that is confined to some.
    :ivar emulator: the host CPUs that the emulator is confined to; empty: any.
    :ivar mdevs: its mediated devices, by uuid.
    :ivar ports: addresses of the PCI devices among its network interfaces.
    :ivar realtime: vCPUs with the realtime scheduler, at ``realtime_priority``.
    :ivar metadata: None: the document has none of Nova.
    """

    usage: DomainUsage
    problem: str = ""
    pins: Mapping[int, frozenset[int]] = {}
    emulator: frozenset[int] = frozenset()
    cells: tuple[GuestCell, ...] = ()
    mdevs: Mapping[str, Mdev] = {}
    ports: frozenset[str] = frozenset()
    realtime: frozenset[int] = frozenset()
    realtime_priority: int = 1
    cpu_topology: CpuTopology | None = None
    locked_memory: bool = False
    file_backed: bool = False
    metadata: ServerMetadata | None = None


#: ``absent``: not defined. ``stopped``: defined, and not active. ``running``: active, or paused.
GuestState = Literal["absent", "stopped", "running"]


class GuestDomain(Value, frozen=True, kw_only=True):
    """A domain to define on the host of its claim.

    :ivar uuid: of the server, and uuid and name of the domain. :ivar name: of the server. It is the
        domain's title: names of servers need not differ.
    :ivar claim: the claim that the domain enacts, as the agent returned it.
    :ivar guest: children of ``<domain>`` that enact the claim, as the agent returned them.
    :ivar node_devices: documents of the mediated devices to create before the domain starts.
    :ivar document: a domain document with disks, networks and whatever else a claim does not
        determine; None: a minimal one is made from the flavor.
    """

    uuid: str
    name: str
    claim: Claim
    guest: str = ""
    node_devices: tuple[str, ...] = ()
    document: str | None = None


class LineMark(StrEnum):
    """How a line of the claim's guest and a line of the domain relate."""

    SAME = "same"
    DIFFERENT = "different"
    ONLY_CLAIM = "only-claim"
    ONLY_DOMAIN = "only-domain"


class ComparedLine(Value, frozen=True, kw_only=True):
    """:ivar claim: the line of the claim's guest, or "". :ivar domain: of the domain, or ""."""

    mark: LineMark
    claim: str = ""
    domain: str = ""


class DomainDocument(Value, frozen=True, kw_only=True):
    """The document of a domain. :ivar at: when it was read."""

    xml: str
    at: datetime


class GuestComparison(Value, frozen=True, kw_only=True):
    """The XML of a claim's guest, and that of its domain.

    :ivar lines: the parts that a claim determines. Without a domain, those of the claim alone.
    :ivar domain: the domain as it was last read; None: it was not read, or its document is not
        kept.
    :ivar problem: why the two cannot be compared, or "".
    """

    lines: tuple[ComparedLine, ...]
    domain: DomainDocument | None = None
    problem: str = ""

    @property
    def differences(self) -> int:
        """The number of lines that are not the same."""
        return sum(each.mark != LineMark.SAME for each in self.lines) if self.domain else 0


class AdoptRequest(Value, frozen=True, kw_only=True):
    """What an instance has on this node, as a fact that the embedding program knows.

    :ivar instance: its flavor states the vCPUs, the memory and the disk, which are not judged.
    :ivar numa_topology: its host CPUs, cells and pages; None: nothing is pinned. The agent adds
        what follows from the flavor and the configuration: where shared vCPUs and the emulator run.
    :ivar devices: address, vendor, product, type and request are the caller's; the agent adds what
        its own record of the device has.
    :ivar resources: class and identifier are the caller's; the agent adds the rest.
    :ivar quantities: of the classes that provider files offer, and the context of encrypted memory.
    :ivar migration: the move that the claim takes part in, or None.
    :ivar role: of this claim in that move: the guest's at its destination, or the one that is held
        at the source for its return.
    :ivar attached: the request is for devices that were attached to the guest, alone: its claim
        has neither CPUs and memory nor a move.
    """

    instance: Instance
    numa_topology: Assignment | None = None
    devices: tuple[AssignedDevice, ...] = ()
    resources: tuple[AssignedResource, ...] = ()
    quantities: tuple[AssignedQuantity, ...] = ()
    migration: MigrationFacts | None = None
    role: Role = DEST
    attached: bool = False
