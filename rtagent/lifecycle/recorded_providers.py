"""Update the uuids of providers that claims record: adoption changes them. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from rtagent.model.claim import Claim
from rtagent.model.node_state import NodeState
from rtagent.model.policy import Policy
from rtagent.model.provider_names import provider_uuid
from rtagent.pci.placement_reporting import provider_of_device, provider_of_resource


def claims_with_new_providers(state: NodeState, policy: Policy, now: datetime) -> tuple[Claim, ...]:
    """Return the claims whose units have another provider under a policy than they record."""
    after = replace(state, policy=policy)
    changed = ((claim, _with_providers(claim, after)) for claim in state.claims.values())
    return tuple(
        replace(new, updated_at=now, revision=state.revision + 1)
        for claim, new in changed
        if new != claim and not claim.quarantined
    )


def _with_providers(claim: Claim, state: NodeState) -> Claim:
    return replace(
        claim,
        resources=tuple(
            replace(unit, provider=provider_of_resource(state, unit.parent_addr))
            for unit in claim.resources
        ),
        pci=tuple(
            replace(device, provider=provider_of_device(state, device.address))
            for device in claim.pci
        ),
        quantities=tuple(
            replace(each, provider=provider_uuid(state.node, state.policy.placement, each.suffix))
            for each in claim.quantities
        ),
    )
