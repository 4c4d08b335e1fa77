"""Claims: the resources that are assigned to an owner on a node, how they end, and their history.

Usage is the sum of the claims.
"""

from collections.abc import Mapping
from datetime import datetime

from rtagent.model import request
from rtagent.model.assignment import AssignedQuantity, AssignedResource, Assignment
from rtagent.model.base import Value
from rtagent.model.device import AssignedDevice
from rtagent.model.mem_encryption import MemEncryption
from rtagent.model.usage import Usage, assignment_usage

#: Held for a build that does not run yet. Leased.
BUILDING = "building"
#: Held until a call, or a positive fact, releases it.
ACTIVE = "active"
#: Held for a guest that moves here, or is resized. Leased.
INCOMING = "incoming"
#: Held at the source of a move until the move is confirmed or reverted.
OUTGOING = "outgoing"
#: The claim has no resources any more. The final state of every claim.
RELEASED = "released"

LIVE_STATES = frozenset({BUILDING, ACTIVE, INCOMING, OUTGOING})
LEASED_STATES = frozenset({BUILDING, INCOMING})

#: The kind of a claim: a build, devices attached to a guest, or one of the types of moves.
BUILD, ATTACH = "build", "attach"
RESIZE, MIGRATION, LIVE_MIGRATION = "resize", "migration", "live-migration"
EVACUATION = "evacuation"
MOVE_TYPES = frozenset({RESIZE, MIGRATION, LIVE_MIGRATION, EVACUATION})

#: The kind of a unit: a host CPU, a PCI device, an assignable resource (vGPU, vPMEM namespace), or
#: a quantity of one claim, so that the claim's document is not its only record.
PCPU, PCI, RESOURCE, QUANTITY = "PCPU", "PCI", "RESOURCE", "QUANTITY"
#: The longest name of a unit. A longer one, of a quantity with a long name, is left out.
MAX_UNIT = 255
#: A concrete resource: its kind, and its name within the kind.
Unit = tuple[str, str]
_NO_UNITS: frozenset[Unit] = frozenset()

#: The beginning of ``Claim.suspect`` of a quarantined claim.
DAMAGED = "its record is damaged: "

#: The only type of owner so far: a server (an instance, in Nova's terms).
SERVER = "server"


class Replacement(Value, frozen=True, kw_only=True):
    """The addresses of the devices before a move, and of those that replace them after it."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Claim(Value, frozen=True, kw_only=True):
    """Resources held by one owner on this node.

    :ivar vcpus: shared vCPUs. :ivar pcpus: dedicated host CPUs, including the emulator's.
    :ivar memory_mb: MB. :ivar disk_mb: MB.
    :ivar numa_topology: the assigned host CPUs, cells and pages; None if nothing is pinned.
    :ivar pci: assigned devices, in the order of their requests.
    :ivar pci_replaced: for a move, the devices before and after it, by purpose (an alias name or a
        request id).
    :ivar resources: assigned resources (Nova's ``Instance.resources``).
    :ivar quantities: quantities of the resource classes that provider files offer, and the
        context of a guest with encrypted memory.
    :ivar mem_encryption: how the guest's memory is encrypted, or None.
    :ivar allocations: the allocations in Placement that the claim follows; None: the agent chose.
    :ivar provider_mapping: which of them the PCI requests follow.
    :ivar suspect: why the claim's domain is missing although it should exist, or why its record
        cannot be relied upon; or None.
    :ivar migration_uuid: the current or last move of the claim.
    :ivar expires_at: when the lease ends, for information. The agent uses its monotonic clock.
    :ivar revision: the node's revision at which the claim last changed.
    """

    uuid: str
    host: str
    node: str
    node_uuid: str
    owner_id: str
    state: str
    vcpus: int
    memory_mb: int
    disk_mb: int
    created_at: datetime
    updated_at: datetime
    revision: int
    instance: request.InstanceFacts
    flavor: request.Flavor
    image: request.Image = request.Image()
    limits: request.Limits = request.Limits()
    pci_requests: tuple[request.PciRequest, ...] = ()
    extra_resource: request.ExtraResource = {}
    owner_type: str = SERVER
    kind: str = BUILD
    suspect: str | None = None
    pcpus: int = 0
    numa_topology: Assignment | None = None
    pci: tuple[AssignedDevice, ...] = ()
    pci_replaced: Mapping[str, Replacement] = {}
    resources: tuple[AssignedResource, ...] = ()
    quantities: tuple[AssignedQuantity, ...] = ()
    mem_encryption: MemEncryption | None = None
    allocations: request.Allocations | None = None
    provider_mapping: request.ProviderMapping = {}
    tag: str | None = None
    migration_uuid: str | None = None
    expires_at: datetime | None = None

    @property
    def quarantined(self) -> bool:
        """Whether the claim's row was damaged. The claim keeps all that it may hold. Only a call
        ends or changes it; no audit does.
        """
        return self.suspect is not None and self.suspect.startswith(DAMAGED)

    @property
    def usage(self) -> Usage:
        """The quantities that the claim adds to the node's usage."""
        return Usage(
            vcpus=self.vcpus,
            pcpus=self.pcpus,
            memory_mb=self.memory_mb,
            disk_mb=self.disk_mb,
            numa=assignment_usage(self.numa_topology),
            quantities={each.pool: each.quantity for each in self.quantities},
        )

    @property
    def units(self) -> frozenset[Unit]:
        """The units that no other owner may hold: host CPUs (including idle thread siblings),
        devices, assigned resources, its own quantities.
        """
        taken = self.numa_topology.taken if self.numa_topology else ()
        if not (taken or self.pci or self.resources or self.quantities):
            return _NO_UNITS  # as of most claims
        quantities = (each.unit_of(self.uuid) for each in self.quantities)
        return frozenset(
            (
                *((PCPU, str(cpu)) for cpu in taken),
                *((PCI, device.address) for device in self.pci),
                *((RESOURCE, unit.identifier) for unit in self.resources),
                *((QUANTITY, name) for name in quantities if len(name) <= MAX_UNIT),
            )
        )


#: The actions that state that the owner needs nothing more from its claim: a caller's or an
#: operator's release, the end of a move by its conductor, and a recorded evacuation. A lapsed lease
#: (``expire``) is not among them: the caller may still be there.
CONFIRMED_ENDS = frozenset(
    {
        "abort",
        "release",
        "drop_move_claim",
        "drop_move_claim_at_dest",
        "drop_move_claim_at_source",
        "evacuated",
    }
)


class ClaimEnd(Value, frozen=True, kw_only=True):
    """How the last main claim of an owner on a node ended.

    :ivar action: the last action of the claim's history; "" if it was purged.
    :ivar revision: of the node, at which the claim ended.
    """

    claim_uuid: str
    action: str
    revision: int

    @property
    def confirmed(self) -> bool:
        """Whether a call or a recorded fact says that the owner needs nothing more here."""
        return self.action in CONFIRMED_ENDS


class ClaimFacts(Value, frozen=True, kw_only=True):
    """The part of a claim that its history records.

    :ivar migration_uuid: the move that it took part in.
    :ivar vcpus: shared vCPUs. :ivar pcpus: dedicated CPUs. :ivar memory_mb: MB. :ivar disk_mb: MB.
    """

    state: str
    suspect: str | None
    vcpus: int
    pcpus: int
    memory_mb: int
    disk_mb: int
    migration_uuid: str | None = None


class ClaimEvent(Value, frozen=True, kw_only=True):
    """An event of a claim: actor, action and time, and the claim before and after it.

    :ivar before: None at the claim's creation.
    :ivar actor: a user's id, or the agent's own part (``audit``).
    """

    claim_uuid: str
    node_uuid: str
    action: str
    at: datetime
    actor: str
    request_id: str
    before: ClaimFacts | None
    after: ClaimFacts
    reason: str


class NumberedEvent(Value, frozen=True, kw_only=True):
    """:ivar number: in the order in which events were recorded; of one database."""

    number: int
    event: ClaimEvent


class HistoryPage(Value, frozen=True, kw_only=True):
    """A part of a history, newest event first.

    :ivar older: the number before which older events may be found; None: there are none.
    """

    events: tuple[NumberedEvent, ...] = ()
    older: int | None = None
