"""Plan a reshape: move inventories and allocations to the providers that should have them. Pure.

Placement may have an older layout of a node: virtual GPUs on the root provider, or no providers of
devices that claims have already. The claims say which device a consumer's part belongs to. All
inventories and allocations are replaced by one request (``POST /reshaper``). A plan for what such a
request leaves is empty, so that an interrupted one can be repeated.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.placement.consumers import ConsumerRecord
from rtagent.placement.provider import InventoryRecord
from rtagent.placement.tree import (
    Layout,
    Pool,
    ProviderLayout,
    WantedLayout,
    consumers_with,
    new_pools,
    old_pools,
)


class Transfer(Value, frozen=True):
    """A part of a consumer's allocation that goes to a provider.

    :ivar source: the uuid of the provider that has it now; None: it is added, because a claim has
        the units.
    """

    consumer: str
    resource_class: str
    source: str | None
    target: str
    quantity: int


class Reshape(Value, frozen=True, kw_only=True):
    """One ``POST /reshaper``.

    :ivar providers: with their new inventories, by uuid. :ivar consumers: with their new
        allocations, by uuid.
    """

    providers: Mapping[str, ProviderLayout]
    consumers: Mapping[str, ConsumerRecord]
    transfers: tuple[Transfer, ...]


class ReshapeRefusal(Value, frozen=True, kw_only=True):
    """Why there is no reshape.

    :ivar provider: the name of the provider that has the consumer's allocation.
    :ivar reason: a clause.
    """

    consumer: str
    resource_class: str
    quantity: int
    provider: str
    reason: str

    def __str__(self) -> str:
        return (
            f"consumer {self.consumer} has {self.quantity} {self.resource_class} of provider"
            f" {self.provider}, and {self.reason}"
        )


def plan_reshape(now: Layout, wanted: WantedLayout) -> Reshape | ReshapeRefusal | None:
    """Return the reshape that this node needs; None: it needs none.

    The total of each consumer's allocations by class stays the same, except for parts that are
    added because its claims have units of a provider that is new to Placement.
    """
    planner = _Planner(now, wanted)
    if (refusal := planner.move()) is not None:
        return refusal
    planner.add()
    if (refusal := planner.over_capacity()) is not None:
        return refusal
    return planner.result() if planner.transfers else None


class _Planner:
    """Collects transfers. Its state is that of one call of `plan_reshape`."""

    def __init__(self, now: Layout, wanted: WantedLayout) -> None:
        self._now, self._wanted = now, wanted
        self._records = wanted.inventories
        self.transfers: list[Transfer] = []
        self._dropped: set[Pool] = set()
        self._used: Counter[tuple[str, Pool]] = Counter(
            {
                (consumer, (uuid, name)): quantity
                for uuid, provider in now.providers.items()
                for consumer, quantities in provider.allocations.items()
                for name, quantity in quantities.items()
            }
        )

    # -- parts that move ---------------------------------------------------------------------------

    def move(self) -> ReshapeRefusal | None:
        """Move every part of the old pools whose place is known."""
        unknown: list[tuple[str, Pool]] = []
        for pool in old_pools(self._now, self._wanted):
            parts = [key for key in sorted(self._used) if key[1] == pool and self._used[key]]
            for consumer, _ in parts:
                found = self._known_places(consumer, pool)
                if isinstance(found, ReshapeRefusal):
                    return found
                for target, quantity in found.items():
                    self._transfer(consumer, pool[1], pool[0], target, quantity)
                if not found and pool[0] == self._wanted.root:
                    unknown.append((consumer, pool))
            if parts:
                self._dropped.add(pool)
        refusal = self._move_unknown(unknown)
        # The inventory of a pool stays while parts of it stay.
        self._dropped -= {pool for (_, pool), quantity in self._used.items() if quantity}
        return refusal

    def _known_places(self, consumer: str, pool: Pool) -> Mapping[str, int] | ReshapeRefusal:
        """Return the providers that a consumer's units are on; {} if that is not known."""
        source, name = pool
        quantity = self._used[consumer, pool]
        units = self._wanted.units_of(consumer, name)
        if source in units:
            return {}
        lacking = {
            uuid: number - self._used[consumer, (uuid, name)]
            for uuid, number in units.items()
            if number > self._used[consumer, (uuid, name)]
        }
        if sum(lacking.values()) == quantity:
            return lacking
        if len(lacking) == 1:
            return dict.fromkeys(lacking, quantity)
        if source != self._wanted.root or not units:
            return {}
        listed = ", ".join(f"{n} on {self._name(uuid)}" for uuid, n in sorted(units.items()))
        return self._refuse(consumer, pool, f"its claims and domain have {listed}")

    def _move_unknown(self, parts: Sequence[tuple[str, Pool]]) -> ReshapeRefusal | None:
        """Move parts of consumers without claims, if only one provider has enough for them."""
        for consumer, pool in parts:
            quantity = self._used[consumer, pool]
            left = {
                uuid: self._unused((uuid, name)) for uuid, name in self._records if name == pool[1]
            }
            fitting = sorted(uuid for uuid, units in left.items() if units >= quantity)
            if len(fitting) != 1:
                listed = ", ".join(self._name(uuid) for uuid in fitting)
                reason = (
                    f"no claim of this host says which of {listed} it belongs to"
                    if fitting
                    else "no device has enough for it: "
                    + ", ".join(f"{max(0, n)} on {self._name(u)}" for u, n in sorted(left.items()))
                )
                return self._refuse(consumer, pool, reason)
            self._transfer(consumer, pool[1], pool[0], fitting[0], quantity)
        return None

    def _unused(self, pool: Pool) -> int:
        """Return how many units neither an allocation nor a claim has."""
        users = (*self._wanted.claimed.items(), *self._wanted.observed.items())
        lacking = (pools.get(pool, 0) - self._used[consumer, pool] for consumer, pools in users)
        taken = self._total(pool) + sum(max(0, each) for each in lacking)
        return _capacity(self._records[pool]) - taken

    # -- parts that are added ----------------------------------------------------------------------

    def add(self) -> None:
        """Add what claims have of new pools to the consumers that Placement knows."""
        for pool in new_pools(self._now, self._wanted):
            for consumer in consumers_with(self._wanted, pool):
                found = self._now.consumers.get(consumer)
                if found is None or not found.allocations.keys() & self._now.providers.keys():
                    continue
                lacking = self._wanted.claimed[consumer][pool] - self._used[consumer, pool]
                quantity = min(lacking, self._lacking_anywhere(consumer, pool[1]))
                if quantity > 0:
                    self._transfer(consumer, pool[1], None, pool[0], quantity)

    def _lacking_anywhere(self, consumer: str, name: str) -> int:
        """Return how many units of a class the claims have beyond the allocations."""
        units = self._wanted.units_of(consumer, name)
        parts = {
            uuid: quantity
            for (each, (uuid, resource_class)), quantity in self._used.items()
            if (each, resource_class) == (consumer, name) and quantity
        }
        # A part whose place is not known may be that of these units.
        return sum(units.values()) - sum(parts.values()) if parts.keys() <= units.keys() else 0

    # -- the result --------------------------------------------------------------------------------

    def over_capacity(self) -> ReshapeRefusal | None:
        """Return why a target cannot have its allocations, if that is so."""
        for each in self.transfers:
            pool = (each.target, each.resource_class)
            record, used = self._records.get(pool), self._total(pool)
            if record is None or used > _capacity(record):
                has = 0 if record is None else _capacity(record)
                reason = f"{self._name(each.target)} would have {used} of {has}"
                source = (each.source or each.target, each.resource_class)
                return self._refuse(each.consumer, source, reason, each.quantity)
        return None

    def result(self) -> Reshape:
        ends = {uuid for each in self.transfers for uuid in (each.source, each.target)}
        consumers = {each.consumer for each in self.transfers}
        return Reshape(
            providers={uuid: self._provider(uuid) for uuid in sorted(filter(None, ends))},
            consumers={uuid: self._consumer(uuid) for uuid in sorted(consumers)},
            transfers=tuple(self.transfers),
        )

    def _provider(self, uuid: str) -> ProviderLayout:
        missing = ProviderLayout(name=self._name(uuid), generation=0, absent=True)
        found = self._now.providers.get(uuid, missing)
        kept = {n: r for n, r in found.inventories.items() if (uuid, n) not in self._dropped}
        names = {each.resource_class for each in self.transfers if each.target == uuid}
        added = {
            name: _fitted(self._records[uuid, name], self._total((uuid, name))) for name in names
        }
        return replace(found, inventories={**kept, **added})

    def _consumer(self, uuid: str) -> ConsumerRecord:
        found = self._now.consumers[uuid]
        quantities = {provider: Counter(part) for provider, part in found.allocations.items()}
        for each in self.transfers:
            if each.consumer != uuid:
                continue
            quantities.setdefault(each.target, Counter())[each.resource_class] += each.quantity
            if each.source is not None:
                quantities[each.source][each.resource_class] -= each.quantity
        left = {provider: dict(+part) for provider, part in quantities.items() if +part}
        return replace(found, allocations=left)

    def _transfer(
        self, consumer: str, name: str, source: str | None, target: str, quantity: int
    ) -> None:
        self.transfers.append(Transfer(consumer, name, source, target, quantity))
        self._used[consumer, (target, name)] += quantity
        if source is not None:
            self._used[consumer, (source, name)] -= quantity

    def _total(self, pool: Pool) -> int:
        return sum(quantity for (_, each), quantity in self._used.items() if each == pool)

    def _name(self, uuid: str) -> str:
        named: Iterator[str] = (p.name for p in self._wanted.tree.providers if p.uuid == uuid)
        known = self._now.providers.get(uuid)
        return known.name if known else next(named, uuid)

    def _refuse(self, consumer: str, pool: Pool, reason: str, quantity: int = 0) -> ReshapeRefusal:
        return ReshapeRefusal(
            consumer=consumer,
            resource_class=pool[1],
            quantity=quantity or self._used[consumer, pool],
            provider=self._name(pool[0]),
            reason=reason,
        )


def _capacity(record: InventoryRecord) -> int:
    """Return how much of a record can be allocated if nothing is reserved."""
    return math.floor(record.total * record.allocation_ratio)


def _fitted(record: InventoryRecord, used: int) -> InventoryRecord:
    """Reserve so little that the allocations fit: Placement refuses them otherwise. The next push
    reserves what should be reserved.
    """
    free = record.total - math.ceil(used / record.allocation_ratio)
    return replace(record, reserved=max(0, min(record.reserved, free)))
