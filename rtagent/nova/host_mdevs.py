"""The mediated devices of a host as Nova's driver reports them, and what follows for the node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from rtagent.conf.compute import MdevOptions
from rtagent.conf.settings import Settings
from rtagent.model.assignment import AssignedResource
from rtagent.model.base import Value
from rtagent.model.claim import OUTGOING, Claim
from rtagent.model.device import Device, Mdev, MdevType
from rtagent.pci.assigned_resources import claimed_mdevs
from rtagent.pci.mdev import adopted_identifier


class MdevParent(Value, frozen=True, kw_only=True):
    """A device whose mediated devices Nova gives out.

    :ivar type: the one that is enabled on it. :ivar total: of those that exist, and those that can
        be created: its inventory in Placement.
    """

    address: str
    type: str
    resource_class: str
    total: int


class HostMdevs(Value, frozen=True, kw_only=True):
    """:ivar mdevs: those that exist, of the enabled type of their parent."""

    parents: tuple[MdevParent, ...] = ()
    mdevs: tuple[Mdev, ...] = ()

    def settings(self, base: Settings) -> Settings:
        """Return the settings in which each type is enabled on its devices, and no other one."""
        types = {
            parent.type: MdevOptions(
                device_addresses=[p.address for p in self.parents if p.type == parent.type],
                mdev_class=parent.resource_class,
                max_instances=None,  # Nova has applied its own rule to the totals
            )
            for parent in self.parents
        }
        return replace(
            base, devices=replace(base.devices, enabled_mdev_types=tuple(types)), mdev=types
        )

    def devices(self, listed: tuple[Device, ...] | None) -> tuple[Device, ...] | None:
        """Return the host's devices with the types that they support. :param listed: without."""
        existing = Counter(mdev.parent_addr for mdev in self.mdevs)
        types = {
            parent.address: MdevType(
                id=parent.type,
                device_api="",
                available_instances=max(0, parent.total - existing[parent.address]),
            )
            for parent in self.parents
        }
        if listed is None:
            return None
        return tuple(
            replace(each, mdev_types=(types[each.address],)) if each.address in types else each
            for each in listed
        )

    def resources(self, uuids: Iterable[str]) -> Iterator[AssignedResource]:
        """Yield the mediated devices with these uuids as a claim has them. Those that Nova does not
        give out are left out.
        """
        classes = {parent.address: parent.resource_class for parent in self.parents}
        by_uuid = {mdev.uuid: mdev for mdev in self.mdevs if mdev.parent_addr in classes}
        for mdev in (by_uuid[uuid] for uuid in uuids if uuid in by_uuid):
            yield AssignedResource(
                resource_class=classes[mdev.parent_addr],
                identifier=adopted_identifier(mdev),
                parent_addr=mdev.parent_addr,
            )


def claim_of_guest(mains: tuple[Claim, ...]) -> Claim | None:
    """Return the main claim of an owner whose devices its guest has, or gets next; None: it has
    none. In a move on one host that is the claim at the destination.
    """
    staying = tuple(claim for claim in mains if claim.state != OUTGOING) or mains
    return staying[-1] if staying else None


def mdevs_by_holder(mains: tuple[Claim, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield the uuids of the mediated devices of each main claim of an owner, by the uuid of who
    has them: the owner, or the claim itself if they are held for the guest's return.
    """
    current = claim_of_guest(mains)
    for claim in mains:
        if uuids := list(claimed_mdevs(claim)):
            yield claim.owner_id if claim is current else claim.uuid, uuids
