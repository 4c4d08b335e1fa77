"""A request to record what an instance has on this node already."""

from __future__ import annotations

from rtagent.model.assigned_resources import AssignedResource
from rtagent.model.assignment import Assignment
from rtagent.model.base import Value
from rtagent.model.device import AssignedDevice
from rtagent.model.instance import Instance
from rtagent.model.migration import DEST, MigrationFacts, Role


class AdoptRequest(Value, frozen=True, kw_only=True):
    """What an instance has on this node, as a fact that the embedding program knows.

    :ivar instance: its flavor states the vCPUs, the memory and the disk, which are not judged.
    :ivar numa_topology: its host CPUs, cells and pages; None: nothing is pinned.
    :ivar devices: address, vendor, product, type and request are the caller's; the agent adds what
        its own record of the device has.
    :ivar resources: class and identifier are the caller's; the agent adds the rest.
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
    migration: MigrationFacts | None = None
    role: Role = DEST
    attached: bool = False
