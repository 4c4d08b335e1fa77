"""Compare the allocations on a node's providers with the node's claims, and find those that a
conductor or an operator may delete. Pure.

Each consumer that has an allocation here gets one of four verdicts. The reasons are positive facts
of this agent: a claim that is live, a record that a claim or a move has ended, or neither.

A conductor deletes this node's part of the allocations of an instance that has left, and of its
migrations whose claims here have ended. An operator deletes allocations that belong to no claim.
Parts on other nodes stay.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from enum import StrEnum

from rtagent.errors import ConsumerInUse, IllegalTransition, InvariantViolated
from rtagent.model.base import Value
from rtagent.model.claim import ACTIVE, INCOMING, OUTGOING, Claim, ClaimEnd
from rtagent.model.consumers import DeletionReason, Parts, consumers_of
from rtagent.model.migration import ENDED, ERROR, RETURNED, SUCCEEDED, Migration
from rtagent.model.node_state import NodeState
from rtagent.model.policy import ManageAllocations
from rtagent.placement.provider import Tree

#: The resource classes of each provider, by uuid, that this agent publishes.
Published = Mapping[str, Set[str]]


class AllocationVerdict(StrEnum):
    """What an allocation is in relation to the claims of the node.

    :cvar MATCHING: of a claim; also while its guest is built or moves and they change.
    :cvar DIFFERENT: of a claim with other quantities.
    :cvar ENDED: of a claim, or of a move, that has ended here.
    :cvar UNKNOWN: of a consumer that has no record here.
    """

    MATCHING = "matching"
    DIFFERENT = "different"
    ENDED = "ended"
    UNKNOWN = "unknown"


class AllocatedConsumer(Value, frozen=True, kw_only=True):
    """A consumer as Placement lists it on the providers of this node.

    :ivar generation: of the consumer. :ivar parts: on this node's providers only.
    """

    uuid: str
    generation: int | None
    parts: Parts


class Finding(Value, frozen=True, kw_only=True):
    """The verdict on one consumer.

    :ivar instance_uuid: the owner of the claim or of the move, if there is a record of it.
    :ivar reason: of the verdict, for an operator; "" if it is `MATCHING`.
    :ivar removable: the agent may remove the allocation by itself.
    """

    consumer: AllocatedConsumer
    verdict: AllocationVerdict
    reason: str = ""
    instance_uuid: str | None = None
    removable: bool = False


def without_record(state: NodeState, uuids: Iterable[str]) -> frozenset[str]:
    """Return the consumers of which only the history of claims may know something."""
    return frozenset(
        uuid for uuid in uuids if uuid not in state.owners and uuid not in state.migrations
    )


def unclaimed(
    state: NodeState, consumers: Mapping[str, AllocatedConsumer]
) -> Mapping[str, Mapping[str, int]]:
    """Return what consumers without a claim or a move here have of the root provider, by uuid."""
    found = without_record(state, consumers).difference(state.outbox)
    root = {uuid: consumers[uuid].parts.get(state.node.uuid, {}) for uuid in found}
    return {uuid: quantities for uuid, quantities in root.items() if quantities}


def published_classes(tree: Tree | None) -> Published:
    """Return the resource classes of each provider that the agent publishes."""
    providers = tree.providers if tree else ()
    return {provider.uuid: provider.inventories.keys() for provider in providers}


def classify(
    state: NodeState,
    consumers: Mapping[str, AllocatedConsumer],
    ended: Mapping[str, ClaimEnd],
    published: Published,
) -> tuple[Finding, ...]:
    """Return the verdict on each consumer, by uuid.

    If the agent manages allocations, a consumer of a live claim that has no allocation here is
    `DIFFERENT`, too.

    :param consumers: with an allocation on this node's providers, by uuid.
    :param ended: how claims ended, of the consumers `without_record`.
    """
    findings = _Findings(state, consumers, ended, published)
    found = [findings.of(consumers[uuid]) for uuid in sorted(consumers)]
    return (*found, *(findings.missing() if findings.managed else ()))


class _Findings(Value, frozen=True):
    """The state with which the consumers are compared."""

    state: NodeState
    consumers: Mapping[str, AllocatedConsumer]
    ended: Mapping[str, ClaimEnd]
    published: Published

    @property
    def managed(self) -> bool:
        """Whether this agent writes the allocations of its claims."""
        return self.state.policy.placement.manage_allocations != ManageAllocations.NO

    def of(self, consumer: AllocatedConsumer) -> Finding:
        """Return the verdict on a consumer."""
        uuid = consumer.uuid
        if uuid in self.state.outbox:
            return Finding(consumer=consumer, verdict=AllocationVerdict.MATCHING)
        if uuid in self.state.owners:
            return self._of_claims(consumer, uuid)
        if (record := self.state.migrations.get(uuid)) is not None:
            return self._of_move(consumer, record)
        if (end := self.ended.get(uuid)) is not None:
            return self._of_end(consumer, end)
        return Finding(
            consumer=consumer,
            verdict=AllocationVerdict.UNKNOWN,
            reason="a domain of it is here, without a claim"
            if uuid in self.state.domain_usages
            else "there is no record of it on this node",
        )

    def missing(self) -> Iterator[Finding]:
        """Yield a finding for each claim whose consumer has no allocation here."""
        for owner in sorted(self.state.owners):
            for uuid, expected in consumers_of(self.state, owner).items():
                wanted = _published_parts(expected.parts, self.published)
                known = uuid in self.consumers or uuid in self.state.outbox
                if not known and wanted and self._is_settled(owner):
                    yield Finding(
                        consumer=AllocatedConsumer(uuid=uuid, generation=None, parts={}),
                        verdict=AllocationVerdict.DIFFERENT,
                        reason="it has a claim and no allocation",
                        instance_uuid=owner,
                    )

    def _of_claims(self, consumer: AllocatedConsumer, owner: str) -> Finding:
        """The verdict on a consumer of live claims."""
        expected = self._expected(consumer.uuid, owner)
        found = _published_parts(consumer.parts, self.published)
        if found == expected or not self._is_settled(owner):
            return Finding(consumer=consumer, verdict=AllocationVerdict.MATCHING)
        return Finding(
            consumer=consumer,
            verdict=AllocationVerdict.DIFFERENT,
            reason=f"its claim has {quantities(expected) or 'nothing'}",
            instance_uuid=owner,
        )

    def _of_move(self, consumer: AllocatedConsumer, record: Migration) -> Finding:
        """The verdict on a migration that has a record here."""
        owner = record.instance_uuid
        if record.status not in ENDED or any(
            claim.migration_uuid == record.uuid and claim.state in (INCOMING, OUTGOING)
            for claim in self.state.claims_of(owner)
        ):
            return self._of_claims(consumer, owner)
        # An error may be the agent's own finding: that the lease of the destination has lapsed.
        confirmed = self.managed or record.status != ERROR
        reason = f"migration of instance {owner}: {record.status}"
        if record.status in RETURNED and not self._is_back(owner):
            confirmed = False
            reason += "; the instance does not have its own allocation again yet"
        return Finding(
            consumer=consumer,
            verdict=AllocationVerdict.ENDED,
            reason=reason,
            instance_uuid=owner,
            removable=confirmed and not self.state.unknown,
        )

    def _of_end(self, consumer: AllocatedConsumer, end: ClaimEnd) -> Finding:
        """The verdict on a consumer whose claims have ended."""
        here = consumer.uuid in self.state.domain_usages
        reason = f"claim {end.claim_uuid} has ended: {end.action or 'its history was purged'}"
        return Finding(
            consumer=consumer,
            verdict=AllocationVerdict.ENDED,
            reason=f"{reason}; its domain is still here" if here else reason,
            instance_uuid=consumer.uuid,
            removable=(self.managed or end.confirmed) and not self.state.unknown and not here,
        )

    def _expected(self, uuid: str, owner: str) -> Parts:
        found = consumers_of(self.state, owner).get(uuid)
        return _published_parts(found.parts if found else {}, self.published)

    def _is_settled(self, owner: str) -> bool:
        """Whether the quantities of an owner's claims can be compared: its guest is neither being
        built nor moves, and no record is damaged.
        """
        claims: tuple[Claim, ...] = self.state.claims_of(owner)
        return all(claim.state == ACTIVE and not claim.quarantined for claim in claims)

    def _is_back(self, owner: str) -> bool:
        """Whether an instance has no claim here, or the allocations of its claims."""
        expected = self._expected(owner, owner)
        consumer = self.consumers.get(owner)
        found = _published_parts(consumer.parts if consumer else {}, self.published)
        return expected == found


def quantities(parts: Parts) -> str:
    """Return the sums of parts, for a person to read: ``MEMORY_MB 512, VCPU 1``."""
    sums: dict[str, int] = {}
    for resources in parts.values():
        for name, quantity in resources.items():
            sums[name] = sums.get(name, 0) + quantity
    return ", ".join(f"{name} {sums[name]}" for name in sorted(sums))


def _published_parts(parts: Parts, published: Published) -> Parts:
    """Leave out what this agent does not publish: other services are responsible for it."""
    found = {
        provider: {
            name: quantity
            for name, quantity in resources.items()
            if quantity and name in published.get(provider, ())
        }
        for provider, resources in parts.items()
    }
    return {provider: resources for provider, resources in found.items() if resources}


#: The methods that end the claims of an instance which leaves in this way.
_ENDS: Mapping[DeletionReason, str] = {
    DeletionReason.EVACUATED: "drop_move_claim_at_source, release_claim",
    DeletionReason.MIGRATED: "drop_move_claim_at_source, release_claim",
    DeletionReason.SHELVE_OFFLOADED: "update_usage with vm_state shelved_offloaded, release_claim",
}


def unneeded_consumers(
    state: NodeState, instance_uuid: str, reason: DeletionReason
) -> tuple[str, ...]:
    """Return the consumers that need nothing more on this node.

    After a resize on this host the instance has a claim here, and keeps its allocation; only that
    of the migration is deleted.

    :raises IllegalTransition: the instance has a claim here that needs the allocation.
    """
    claims = state.claims_of(instance_uuid)
    moves = sorted(
        (each for each in state.migrations.values() if each.instance_uuid == instance_uuid),
        key=lambda each: (each.created_at, each.uuid),
    )
    held = {claim.migration_uuid for claim in claims if claim.state == OUTGOING}
    if not claims:
        ended = (each.uuid for each in moves if each.status in ENDED)
        return (instance_uuid, *ended)
    succeeded = [each.uuid for each in moves if each.status in SUCCEEDED and each.uuid not in held]
    if reason == DeletionReason.MIGRATED and succeeded and not held:
        return tuple(succeeded)
    claim = next((each for each in claims if each.state == OUTGOING), claims[0])
    raise IllegalTransition(
        claim_uuid=claim.uuid, state=claim.state, verb=reason.method, legal=_ENDS[reason]
    )


def check_deletable(state: NodeState, consumer_uuid: str) -> None:
    """Check that a consumer needs nothing on this node.

    :raises ConsumerInUse: it has a claim, a move or a domain here; the message names it.
    :raises InvariantViolated: it is not known what is claimed here.
    """
    if state.unknown:
        raise InvariantViolated(f"it is not known what is held: {'; '.join(state.unknown)}")
    user = _user(state, consumer_uuid)
    if user is not None:
        raise ConsumerInUse(consumer_uuid=consumer_uuid, user=user)


def _user(state: NodeState, uuid: str) -> str | None:
    """Return what a consumer has here."""
    for claim in state.claims_of(uuid):
        return f"its {claim.state} claim {claim.uuid}"
    record = state.migrations.get(uuid)
    if record is not None:
        if record.status not in ENDED:
            return f"the {record.status} {record.migration_type} of instance {record.instance_uuid}"
        for claim in state.claims_of(record.instance_uuid):
            if claim.migration_uuid == uuid and claim.state != "active":
                return f"its {claim.state} claim {claim.uuid}"
    domain = state.domain_usages.get(uuid)
    return None if domain is None else f"its domain {domain.name}"
