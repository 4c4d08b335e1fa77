"""What an owner has on the host already, and may reuse for a new claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.node_state import NodeState
from rtagent.pci.assigned_resources import resources_of


class Reusable(Value, frozen=True, kw_only=True):
    """The resources that an owner already has on this host and that its new claim may reuse.

    :ivar devices: the purpose of each PCI device, by address.
    :ivar identifiers: of assigned resources.
    """

    devices: Mapping[str, str] = {}
    identifiers: frozenset[str] = frozenset()


def reusable_by(state: NodeState, owner_id: str, claims: Sequence[Claim]) -> Reusable:
    """Return the resources of these claims of an owner, and those that its domain uses without a
    claim.

    An orphan that is adopted keeps its devices. If its domain is shut off, it keeps only those that
    have not been assigned to another owner in the meantime.
    """
    devices = {device.address: device.purpose for claim in claims for device in claim.pci}
    identifiers = {unit.identifier for claim in claims for unit in claim.resources}
    domain_usage = state.domain_usages.get(owner_id)
    if domain_usage is None:
        return Reusable(devices=devices, identifiers=frozenset(identifiers))
    claimed = {device.address for claim in state.claims_of(owner_id) for device in claim.pci}
    unclaimed = dict.fromkeys(domain_usage.occupancy.devices - claimed, "")
    used = resources_of(state, owner_id)
    return Reusable(devices={**unclaimed, **devices}, identifiers=used | identifiers)
