"""A claim: who holds what, and since when. The claim is the record; usage is its sum."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from rtagent.model.assignment import Assignment
from rtagent.model.base import Value
from rtagent.model.device import AssignedDevice
from rtagent.model.flavor import Flavor, Image
from rtagent.model.instance import InstanceFacts, PciRequest
from rtagent.model.numa_usage import assigned
from rtagent.model.request import ExtraResource, Limits
from rtagent.model.specific import SpecificUnit
from rtagent.model.usage import Usage

#: Held for a build that has not begun to run; leased.
BUILDING = "building"
#: Held until a call, or a positive fact, releases it.
ACTIVE = "active"
#: Held for a guest that is to arrive from elsewhere, or in another size; leased.
INCOMING = "incoming"
#: Held for the return of a guest that has left, until the move is confirmed or reverted.
OUTGOING = "outgoing"
#: Holds nothing any more; the end of every claim.
RELEASED = "released"

LIVE_STATES = frozenset({BUILDING, ACTIVE, INCOMING, OUTGOING})
LEASED_STATES = frozenset({BUILDING, INCOMING})

#: Kinds of claims: what a build makes; devices that are added to a guest; what the moves make.
BUILD, ATTACH = "build", "attach"
RESIZE, MIGRATION, LIVE_MIGRATION = "resize", "migration", "live-migration"
EVACUATION = "evacuation"
MOVE_KINDS = frozenset({RESIZE, MIGRATION, LIVE_MIGRATION, EVACUATION})

#: Kinds of units: a host CPU, a PCI device, a member of a class of specific resources.
PCPU, PCI, SPECIFIC = "PCPU", "PCI", "SPECIFIC"
#: A concrete thing: its kind, and its name among its kind.
Unit = tuple[str, str]

#: The only type of owner so far: a server (Nova's instance).
SERVER = "server"


class Replacement(Value, frozen=True, kw_only=True):
    """Which devices take the place of which: their addresses before and after a move."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Claim(Value, frozen=True, kw_only=True):
    """Resources held by one owner on this node.

    :ivar vcpus: shared ones. :ivar pcpus: host CPUs of its own, its emulator's included.
    :ivar numa_topology: which; None when it was given no place in particular.
    :ivar pci: devices, in the order of the requests that they answer.
    :ivar pci_replaced: of a move: what becomes of the devices that the guest had, by their purpose
        (an alias's name, or a request's id).
    :ivar resources: members of classes of specific resources (Nova's ``Instance.resources``).
    :ivar suspect: why its domain should be there and is not, or None.
    :ivar memory_mb: MB. :ivar disk_mb: MB.
    :ivar migration_uuid: the move that it takes part in, or took part in last.
    :ivar expires_at: when the lease ends, for information: the agent judges by its own clock.
    :ivar revision: the node's revision with which the claim last changed.
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
    instance: InstanceFacts
    flavor: Flavor
    image: Image = Image()
    limits: Limits = Limits()
    pci_requests: tuple[PciRequest, ...] = ()
    extra_resource: ExtraResource = {}
    owner_type: str = SERVER
    kind: str = BUILD
    suspect: str | None = None
    pcpus: int = 0
    numa_topology: Assignment | None = None
    pci: tuple[AssignedDevice, ...] = ()
    pci_replaced: Mapping[str, Replacement] = {}
    resources: tuple[SpecificUnit, ...] = ()
    tag: str | None = None
    migration_uuid: str | None = None
    expires_at: datetime | None = None

    @property
    def usage(self) -> Usage:
        """What the claim adds to the node's usage."""
        return Usage(
            vcpus=self.vcpus,
            pcpus=self.pcpus,
            memory_mb=self.memory_mb,
            disk_mb=self.disk_mb,
            numa=assigned(self.numa_topology),
        )

    @property
    def units(self) -> frozenset[Unit]:
        """What nobody else may have while it holds it: host CPUs, those kept idle included;
        devices; specific resources."""
        taken = self.numa_topology.taken if self.numa_topology else ()
        return frozenset(
            (
                *((PCPU, str(cpu)) for cpu in taken),
                *((PCI, device.address) for device in self.pci),
                *((SPECIFIC, unit.identifier) for unit in self.resources),
            )
        )
