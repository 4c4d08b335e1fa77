"""plan: what an observation asks to be changed. Absence is never evidence of release (P4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from msgspec.structs import replace

from rtagent.model.claim import ACTIVE, ATTACH, BUILDING, LEASED_STATES, Claim
from rtagent.model.holding import Holding
from rtagent.model.host import HOST, HostState
from rtagent.model.migration import TakenOver
from rtagent.model.observation import Domain, Observation
from rtagent.model.owners import main_claims
from rtagent.reconcile.devices import device_steps, specific_steps, touched_devices
from rtagent.reconcile.evacuated import known, taken_over
from rtagent.reconcile.step import Move, Step
from rtagent.views import attached_claims, differences

MISSING = "its domain is neither running nor defined here"
#: Why a claim is expired besides; of one that adds devices, whose domain is here: the other.
LAPSED = {True: "no domain is here", False: "its domain has not got its devices"}

#: Verbs after which a claim is no more.
ENDINGS = frozenset({"expire", "evacuated"})


def plan(
    base: HostState,
    seen: Observation,
    lapsed: Set[str],
    evacuated: Mapping[str, TakenOver] | None = None,
) -> tuple[Step, ...]:
    """The steps from `base` to what was `seen`; none when they agree.

    :param lapsed: uuids of claims whose lease had ended when the observation began.
    :param evacuated: claims whose guests other nodes have taken over, by uuid.
    """
    return (
        *_host_step(base, seen),
        *_owner_steps(base, seen, lapsed, taken_over(base, evacuated or {})),
        *specific_steps(base, seen),
    )


def _owner_steps(
    base: HostState, seen: Observation, lapsed: Set[str], gone: Mapping[str, Move]
) -> Iterator[Step]:
    """And those of devices: each with the step of the owner in whose hands it is or was, so that
    neither stands in the other's way; then the others."""
    devices = {step.key: step for step in device_steps(base, seen)}
    for owner in sorted({*base.owners, *base.holdings, *seen.domains}):
        step = _owner_step(base, seen, owner, lapsed, gone)
        if step is not None:
            yield step
            for key in sorted(touched_devices(base, step) & devices.keys()):
                yield replace(devices.pop(key), joined=True)
    yield from devices.values()


def _host_step(base: HostState, seen: Observation) -> Iterator[Step]:
    topology = seen.topology if seen.topology != base.topology else None
    least = seen.disk_available_least
    if least == base.disk_available_least:
        least = None
    if topology is not None or least is not None:
        yield Step(key=HOST, topology=topology, disk_available_least=least)


def _owner_step(
    base: HostState, seen: Observation, owner: str, lapsed: Set[str], gone: Mapping[str, Move]
) -> Step | None:
    domain = _with_makers(seen.domains.get(owner), seen)
    claims = base.claims_of(owner)
    moves: list[Move] = []
    for claim in claims:
        if claim.uuid in gone and known(domain, seen.complete):
            moves.append(gone[claim.uuid])
        elif domain and _has(domain, claim):
            moves += _present(claim)
        else:
            moves += _absent(claim, domain, seen.complete, claim.uuid in lapsed)
    ended = {move.claim_uuid for move in moves if move.verb in ENDINGS}
    left = tuple(claim for claim in claims if claim.uuid not in ended)
    hold, unhold = _holding(base.holdings.get(owner), left, domain, seen.complete)
    if not moves and hold is None and not unhold:
        return None
    return Step(key=owner, moves=tuple(moves), hold=hold, unhold=unhold)


def _with_makers(domain: Domain | None, seen: Observation) -> Domain | None:
    """With the devices whose parts it uses, which its own document does not tell."""
    if domain is None or not domain.occupancy.mdevs:
        return domain
    used = domain.occupancy.mdevs
    makers = frozenset(mdev.parent_addr for mdev in seen.mdevs if mdev.uuid in used)
    return replace(domain, occupancy=replace(domain.occupancy, makers=makers))


def _has(domain: Domain, claim: Claim) -> bool:
    """Whether a domain that is here is what the claim is for; of a claim that adds devices: whether
    they are there."""
    if claim.kind != ATTACH:
        return True
    return claim.state == ACTIVE or _gives(domain, claim)


def _gives(domain: Domain, claim: Claim) -> bool:
    return domain.occupancy.devices.issuperset(device.address for device in claim.pci)


def _present(claim: Claim) -> Iterator[Move]:
    if claim.state == BUILDING:
        yield Move(claim_uuid=claim.uuid, verb="appear", reason="its domain is here")
    elif claim.suspect is not None:
        yield Move(claim_uuid=claim.uuid, verb="trust", reason="its domain is here again")


def _absent(claim: Claim, domain: Domain | None, complete: bool, lapsed: bool) -> Iterator[Move]:
    if not complete or (domain is not None and domain.holding() is None):
        return
    if claim.state == ACTIVE and claim.suspect is None:
        yield Move(claim_uuid=claim.uuid, verb="suspect", reason=MISSING)
    elif claim.state in LEASED_STATES and lapsed:
        yield Move(
            claim_uuid=claim.uuid,
            verb="expire",
            reason="its lease has lapsed and " + LAPSED[domain is None],
        )


def _holding(
    held: Holding | None, claims: tuple[Claim, ...], domain: Domain | None, complete: bool
) -> tuple[Holding | None, bool]:
    """What to hold for the domain from now on, and whether to stop holding."""
    if domain is None:
        return None, held is not None and complete
    now = domain.holding()
    if now is None:
        return None, False
    attached = attached_claims(claims)
    if any(agrees(claim, now, attached) for claim in main_claims(claims)):
        return None, held is not None
    return (now if now != held else None), False


def agrees(claim: Claim, domain: Holding, attached: Sequence[Claim] = ()) -> bool:
    """Whether a domain is what the claim says; one that is shut off uses nothing yet and may differ
    in nothing that counts."""
    return not domain.active or not any(differences(claim, domain, attached))
