"""plan: the steps that an observation calls for. Absence is never evidence of release (P4). apply:
the steps that still hold, as one Change. The others wait for the next audit.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from functools import partial
from typing import TypeVar

from msgspec.structs import asdict, replace

from rtagent.lifecycle.consequences import with_consequences
from rtagent.lifecycle.moves.context import new_record
from rtagent.lifecycle.transitions import event_of
from rtagent.model.base import Value
from rtagent.model.change import Change, Event
from rtagent.model.claim import ACTIVE, ATTACH, BUILDING, LEASED_STATES, OUTGOING, Claim
from rtagent.model.domain_usage import DomainUsage, HostResource, Occupancy
from rtagent.model.event import DRIFT_FOUND, DriftPayload, Notification
from rtagent.model.migration import RELEASED_STATUS, SOURCE, Migration, MigrationFacts, TakenOver
from rtagent.model.node_state import HOST, NodeState
from rtagent.model.observation import Domain, Observation, Reboot
from rtagent.model.owners import main_claims
from rtagent.pci.assigned_resources import mdev_names
from rtagent.reconcile.drift import attached_claims, differences, drifts
from rtagent.reconcile.steps import (
    AuditStep,
    ClaimTransition,
    Outcome,
    device_steps,
    resource_steps,
    touched_devices,
)


class Agreement:
    """Owners whose claims and domain needed no step at the last audit of a host.

    Most domains stay as they are from one audit to the next. Whether their claims account for them
    follows from the claims and the domain alone, so an owner is compared again only after one of
    these has changed.
    """

    def __init__(self) -> None:
        self._pairs: dict[str, tuple[tuple[Claim, ...], Domain]] = {}

    def has(self, owner: str, claims: tuple[Claim, ...], domain: Domain | None) -> bool:
        """Return whether exactly these claims and this domain agreed when they were compared."""
        # Nearly always the very same values, which Python compares by their identity first.
        return self._pairs.get(owner) == (claims, domain)

    def add(self, owner: str, claims: tuple[Claim, ...], domain: Domain) -> None:
        """Note that these agree."""
        self._pairs[owner] = claims, domain

    def retain(self, owners: Collection[str]) -> None:
        """Forget all owners but these."""
        if len(self._pairs) > len(owners):
            self._pairs = {o: pair for o, pair in self._pairs.items() if o in owners}


def taken_over(
    base: NodeState, evacuated: Mapping[str, TakenOver]
) -> Mapping[str, ClaimTransition]:
    """The ends of the claims that other nodes have taken over, by claim uuid.

    A claim that was made after the snapshot waits for the next audit. A guest that has come back
    from the very host that took it over keeps its claim: what came from there cannot be older,
    whatever the clocks of the two hosts show.
    """
    transitions: dict[str, ClaimTransition] = {}
    for uuid in evacuated.keys() & base.claims.keys():
        claim, by = base.claims[uuid], evacuated[uuid]
        last_move = base.migrations.get(claim.migration_uuid or "")
        came_back = last_move is not None and last_move.source_compute == by.host
        if claim.state in (ACTIVE, OUTGOING) and not came_back:
            transitions[uuid] = ClaimTransition(
                claim_uuid=uuid,
                verb="evacuated",
                reason=f"its guest was evacuated to {by.host}",
                taken_over=by,
            )
    return transitions


def evacuation_records(
    state: NodeState, transitions: Iterable[ClaimTransition], now: datetime
) -> Iterator[Migration]:
    """The records that these evacuations are complete here. A later `drop_move_claim_at_source`
    finds the record, and releases no claim that the guest has here by then."""
    for transition in transitions:
        by = transition.taken_over
        if by is not None and by.migration_uuid and by.migration_uuid not in state.migrations:
            node, claim = state.node, state.claims[transition.claim_uuid]
            facts = MigrationFacts(
                uuid=by.migration_uuid,
                migration_type="evacuation",
                source_compute=node.host,
                source_node=node.hypervisor_hostname,
                dest_compute=by.host,
            )
            status = RELEASED_STATUS["evacuation"]
            yield new_record(node, claim.owner_id, facts, status, SOURCE, claim.uuid, now)


MISSING = "its domain is neither running nor defined here"
#: Verbs that end a claim.
ENDINGS = frozenset({"expire", "evacuated"})


class _Evidence(Value, frozen=True):
    """What the steps of owners follow from, see `plan`. :ivar taken: see `taken_over`."""

    seen: Observation
    lapsed: Set[str]
    taken: Mapping[str, ClaimTransition]
    reboot: Reboot | None


def plan(
    base: NodeState,
    seen: Observation,
    lapsed: Set[str],
    evacuated: Mapping[str, TakenOver] | None = None,
    reboot: Reboot | None = None,
    agreement: Agreement | None = None,
) -> tuple[AuditStep, ...]:
    """The steps from `base` to what was `seen`; none when they agree.

    A device's step follows the step of the owner that has, or had, the device, so that the two are
    applied together. What owners have is recorded before anything becomes available, because claims
    are decided between the chunks of an audit.

    :param lapsed: uuids of claims whose lease had ended when the observation began.
    :param evacuated: claims whose guests other nodes have taken over, by uuid.
    :param reboot: guests that were here before it are awaited.
    :param agreement: of the earlier audits of this host; what is found now is added to it.
    """
    steps = [*_host_step(base, seen)]
    taken = taken_over(base, evacuated or {})
    devices = {step.key: step for step in device_steps(base, seen)}
    agreement = Agreement() if agreement is None else agreement
    owners: list[str] = []
    if seen.has_domains:
        agreement.retain(seen.domains)
        owners = sorted(_to_compare(base, seen, taken, agreement))
    owner_steps: list[AuditStep] = []
    evidence = _Evidence(seen, lapsed, taken, reboot)
    for owner in owners:
        step = _owner_step(base, owner, evidence)
        if step is None:
            _note_agreement(base, seen, owner, agreement)
        else:
            owner_steps.append(step)
    for step in sorted(owner_steps, key=partial(_frees, base)):
        steps.append(step)
        for key in sorted(touched_devices(base, step) & devices.keys()):
            steps.append(replace(devices.pop(key), joined=True))
    return (*steps, *devices.values(), *resource_steps(base, seen))


def _to_compare(
    base: NodeState, seen: Observation, taken: Mapping[str, ClaimTransition], agreement: Agreement
) -> Iterator[str]:
    """Yield the owners for which there may be a step."""
    taken_over_here = {base.claims[uuid].owner_id for uuid in taken}
    always = taken_over_here | set(base.domain_usages)
    for owner in {*base.owners, *seen.domains, *always}:
        claims, domain = base.claims_of(owner), seen.domains.get(owner)
        if owner in always or not agreement.has(owner, claims, domain):
            yield owner


def _note_agreement(base: NodeState, seen: Observation, owner: str, agreement: Agreement) -> None:
    """Note an owner without a step, if that followed from its claims and its domain alone."""
    claims, domain = base.claims_of(owner), seen.domains.get(owner)
    if domain is None or not domain.readable or domain.occupancy.mdevs:
        return
    if owner not in base.domain_usages and all(_is_present(claim, domain) for claim in claims):
        agreement.add(owner, claims, domain)


def _host_step(base: NodeState, seen: Observation) -> Iterator[AuditStep]:
    topology = seen.topology if seen.topology != base.topology else None
    least = seen.disk_available_least
    if least == base.disk_available_least:
        least = None
    if topology is not None or least is not None:
        yield AuditStep(key=HOST, topology=topology, disk_available_least=least)


def _owner_step(base: NodeState, owner: str, evidence: _Evidence) -> AuditStep | None:
    """The transitions of an owner's claims, and the change of its domain's recorded usage."""
    claims, seen = base.claims_of(owner), evidence.seen
    domain = _with_parent_devices(base, seen.domains.get(owner), seen)
    transitions = tuple(_transitions(claims, domain, evidence))
    ended = {transition.claim_uuid for transition in transitions if transition.verb in ENDINGS}
    remaining = tuple(claim for claim in claims if claim.uuid not in ended)
    recorded = base.domain_usages.get(owner)
    if domain is None:
        usage = None if seen.complete else recorded
    else:
        usage = _usage_to_record(domain, remaining, recorded)
    if not transitions and usage == recorded:
        return None
    return AuditStep(
        key=owner,
        transitions=transitions,
        domain_usage=None if usage == recorded else usage,
        removes_domain_usage=usage is None and recorded is not None,
    )


def _frees(base: NodeState, step: AuditStep) -> bool:
    """Whether something may become available: also of a usage that changed, unless it is more
    that is unknown.
    """
    before, after = base.domain_usages.get(step.key), step.domain_usage
    if before is not None and after is not None:
        return before.occupancy.unknown >= after.occupancy.unknown
    ended = any(transition.verb in ENDINGS for transition in step.transitions)
    return ended or step.removes_domain_usage


def _with_parent_devices(
    base: NodeState, domain: Domain | None, seen: Observation
) -> Domain | None:
    """The domain with the parent devices of its mediated devices, which its own document lacks.

    The parent device of one that the host does not list, and that is in no inventory, is unknown.
    """
    if domain is None or not domain.occupancy.mdevs:
        return domain
    occupancy = domain.occupancy
    listed = {mdev.uuid: mdev.parent_addr for mdev in seen.mdevs if mdev.uuid in occupancy.mdevs}
    lost = {HostResource.DEVICES} if unlisted_mdevs(base, occupancy, seen) else set()
    unknown, parents = occupancy.unknown | lost, frozenset(listed.values())
    return replace(domain, occupancy=replace(occupancy, mdev_parents=parents, unknown=unknown))


def unlisted_mdevs(state: NodeState, occupancy: Occupancy, seen: Observation) -> frozenset[str]:
    """Return the uuids of the mediated devices that the host does not list and no inventory has."""
    unlisted = occupancy.mdevs - {mdev.uuid for mdev in seen.mdevs}
    return unlisted - mdev_names(state).keys() if unlisted else unlisted


def _transitions(
    claims: Sequence[Claim], domain: Domain | None, evidence: _Evidence
) -> Iterator[ClaimTransition]:
    """Transitions of an owner's claims.

    Nothing is concluded from absence unless the observation is complete, nor from a domain of which
    something is unknown. From one that was gone before it was read nothing is concluded at all.
    """
    if domain is not None and domain.gone:
        return
    complete, reboot = evidence.seen.complete, evidence.reboot
    readable = complete if domain is None else domain.readable
    for claim in claims:
        found: Iterable[ClaimTransition] = ()
        if claim.uuid in evidence.taken and readable:
            found = (evidence.taken[claim.uuid],)
        elif domain is not None and _is_present(claim, domain):
            found = _on_presence(claim)
        elif readable and complete and not (reboot and reboot.awaits(claim)):
            found = _on_absence(claim, domain, claim.uuid in evidence.lapsed)
        yield from (each for each in found if not is_left_to_calls(claims, each))


def is_left_to_calls(claims: Iterable[Claim], planned: ClaimTransition) -> bool:
    """Return whether no audit may make the transition: it is of a quarantined claim, or ends one
    of the same owner, with which the quarantined claim could end.
    """
    quarantined = [claim.uuid for claim in claims if claim.quarantined]
    ends = planned.verb in ENDINGS
    return planned.claim_uuid in quarantined or (ends and bool(quarantined))


def _is_present(claim: Claim, domain: Domain) -> bool:
    """Whether the domain shows that the claim is used; an attach claim that is building: whether
    the domain has its devices."""
    if claim.kind != ATTACH or claim.state == ACTIVE:
        return True
    return domain.occupancy.devices.issuperset(device.address for device in claim.pci)


def _on_presence(claim: Claim) -> Iterator[ClaimTransition]:
    if claim.state == BUILDING:
        yield _planned(claim, "appear", "its domain is here")
    elif claim.suspect is not None:
        yield _planned(claim, "trust", "its domain is here again")


def _on_absence(claim: Claim, domain: Domain | None, lapsed: bool) -> Iterator[ClaimTransition]:
    if claim.state == ACTIVE and claim.suspect is None:
        yield _planned(claim, "suspect", MISSING)
    elif claim.state in LEASED_STATES and lapsed:
        why = "no domain is here" if domain is None else "its domain has not got its devices"
        yield _planned(claim, "expire", f"its lease has lapsed and {why}")


def _planned(claim: Claim, verb: str, reason: str) -> ClaimTransition:
    return ClaimTransition(claim_uuid=claim.uuid, verb=verb, reason=reason)


def _usage_to_record(
    domain: Domain, claims: Sequence[Claim], recorded: DomainUsage | None
) -> DomainUsage | None:
    """The usage of a domain that its owner's claims do not account for; None: they do.

    What was recorded stays in place of what is unknown now, which may be something that the claims
    do not have.
    """
    usage = domain.domain_usage()
    if usage is None:
        return recorded
    usage = usage.completed(recorded)
    if usage.active and usage.occupancy.unknown:
        return usage
    attached = attached_claims(claims)
    agrees = any(_agrees(claim, usage, attached) for claim in main_claims(claims))
    return None if agrees else usage


def _agrees(claim: Claim, usage: DomainUsage, attached: Sequence[Claim]) -> bool:
    """Whether a domain uses what the claim assigns. A domain that is shut off uses nothing yet."""
    return not usage.active or not any(differences(claim, usage, attached))


T = TypeVar("T")

CAUSE = "audit"


def found_drift(before: NodeState, change: Change) -> tuple[Notification, ...]:
    """Return an event for each difference that the change records and that was not known before."""
    if not change.domain_usages:
        return ()
    owners = [usage.domain_uuid for usage in change.domain_usages]
    known = frozenset(drifts(before, owners))
    return tuple(
        Notification(type=DRIFT_FOUND, payload=DriftPayload(**asdict(drift)))
        for drift in drifts(before.fold(change), owners)
        if drift not in known
    )


def apply(
    state: NodeState, steps: Sequence[AuditStep], base_revision: int, now: datetime
) -> tuple[Change | None, Outcome]:
    """Make the change of the steps whose key is untouched since the base.

    A key that was changed and changed back counts as touched (no ABA): the notes of what was
    touched outlive what they are about. A reload may have quarantined a claim since the base, at
    the same revision; its step is skipped. But what is unknown of a running domain is recorded
    whatever touched its owner: no claim gets it before the next audit.
    """
    current = [
        step
        for step in steps
        if not state.touched_since(step.key, base_revision) and not _is_left_to_calls(state, step)
    ]
    skipped = [step for step in steps if step not in current]
    outcome = Outcome(
        applied=tuple(step.key for step in current), skipped=tuple(step.key for step in skipped)
    )
    current += _unknown(state, skipped)
    return (_change(state, current, now) if current else None), outcome


def _unknown(state: NodeState, steps: Iterable[AuditStep]) -> Iterator[AuditStep]:
    for step in steps:
        usage, recorded = step.domain_usage, state.domain_usages.get(step.key)
        if usage is not None and usage.active and usage.occupancy.unknown:
            yield AuditStep(key=step.key, domain_usage=usage.completed(recorded))


def _is_left_to_calls(state: NodeState, step: AuditStep) -> bool:
    claims = state.claims_of(step.key) if step.transitions else ()
    return any(is_left_to_calls(claims, planned) for planned in step.transitions)


def _change(state: NodeState, steps: Sequence[AuditStep], now: datetime) -> Change:
    transitions = [planned for step in steps for planned in step.transitions]
    events = tuple(_event(state, planned, now) for planned in transitions)
    change = Change(
        cause=CAUSE,
        actor=CAUSE,
        at=now,
        domain_usages=tuple(s.domain_usage for s in steps if s.domain_usage is not None),
        domain_usage_removals=tuple(step.key for step in steps if step.removes_domain_usage),
        migrations=tuple(evacuation_records(state, transitions, now)),
        devices=tuple(step.device for step in steps if step.device is not None),
        device_removals=tuple(s.removed_device for s in steps if s.removed_device is not None),
        resource_inventories=_first(step.resource_inventories for step in steps),
        topology=_first(step.topology for step in steps),
        disk_available_least=_first(step.disk_available_least for step in steps),
    )
    change = with_consequences(state, change, events)
    return replace(change, notifications=found_drift(state, change))


def _first(facts: Iterable[T | None]) -> T | None:
    return next((fact for fact in facts if fact is not None), None)


def _event(state: NodeState, planned: ClaimTransition, now: datetime) -> Event:
    before = state.claims[planned.claim_uuid]
    suspect = planned.reason if planned.verb == "suspect" else None
    return event_of(before, planned.verb, state, now, planned.reason, suspect=suspect)
