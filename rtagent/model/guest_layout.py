"""GuestLayout: how a domain uses the host, in the detail that a claim needs."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.assignment import CpuTopology
from rtagent.model.base import Value
from rtagent.model.device import Mdev
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.flavor import Flavor, Image


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
