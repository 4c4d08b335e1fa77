"""Reshapes of any tree: nothing is lost, nothing is exceeded, and a second plan is empty."""

import math
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent.placement.provider import InventoryRecord
from rtagent.placement.reshape import Reshape, ReshapeRefusal, plan_reshape
from rtagent.placement.tree import Layout, Quantities, WantedLayout
from tests.unit.placement.layouts import GPU_CLASS, VGPU, A, B, C, consumers, layout, wanted
from tests.unit.placement.values import ROOT, record

CLASSES = (VGPU, GPU_CLASS)
PLACES = (ROOT, A, B, C, "elsewhere")
NAMES = ("one", "two", "three", "four")

numbers = st.integers(0, 3)
quantities = st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 3), min_size=1, max_size=2)
records = st.builds(
    lambda total, part: record(total, total * part // 2), st.integers(1, 6), numbers
)
large = st.just(record(20))
devices = st.one_of(
    st.fixed_dictionaries({A: st.fixed_dictionaries(dict.fromkeys(CLASSES, large))}),
    st.fixed_dictionaries(
        {uuid: st.fixed_dictionaries(dict.fromkeys(CLASSES, large)) for uuid in (A, B)}
    ),
    st.dictionaries(
        st.sampled_from((A, B)), st.dictionaries(st.sampled_from(CLASSES), records, min_size=1)
    ),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Layout, WantedLayout]:
    """Draw what Placement has, in which no inventory lacks that has an allocation, and what the
    agent wants.
    """
    drawn = draw(
        st.dictionaries(
            st.sampled_from(NAMES), st.dictionaries(st.sampled_from(PLACES), quantities, min_size=1)
        )
    )
    known = consumers(**drawn)
    there = draw(st.sets(st.sampled_from((ROOT, A, B, C))))
    inventories: dict[str, dict[str, InventoryRecord]] = {
        uuid: draw(st.dictionaries(st.sampled_from(CLASSES), records)) for uuid in there
    }
    for parts in drawn.values():
        for uuid, part in parts.items():
            if uuid != "elsewhere":
                of_provider = inventories.setdefault(uuid, {})
                for name in part:
                    of_provider.setdefault(name, draw(records))
    children = draw(devices)
    pools = [(uuid, name) for uuid, part in children.items() for name in part]
    units = st.dictionaries(st.sampled_from(pools), st.integers(1, 3)) if pools else st.just({})
    holders = st.dictionaries(st.sampled_from((*NAMES, "five")), units, max_size=4)
    claimed = draw(holders)
    for consumer, parts in drawn.items():
        if consumer not in claimed and pools and draw(st.booleans()):
            claimed[consumer] = draw(matching(parts.get(ROOT, {}), pools))
    return layout(inventories, known), wanted(children, claimed, draw(holders))


def matching(part: Quantities, pools: list[tuple[str, str]]) -> st.SearchStrategy[dict[Any, int]]:
    """Return claims of as many units as a consumer's allocation has."""
    units = [
        st.sampled_from([pool for pool in pools if pool[1] == name])
        for name, quantity in part.items()
        for _ in range(quantity)
        if any(pool[1] == name for pool in pools)
    ]
    return st.tuples(*units).map(lambda chosen: dict(Counter(chosen)))


def total(parts: dict[str, Quantities]) -> Counter[str]:
    found: Counter[str] = Counter()
    for part in parts.values():
        found.update(part)
    return found


def after(now: Layout, plan: Reshape) -> Layout:
    """Return what Placement has after the request."""
    known = {**now.consumers, **plan.consumers}
    inventories = {
        uuid: each.inventories for uuid, each in {**now.providers, **plan.providers}.items()
    }
    return layout(inventories, known)


def usage(of: Layout) -> Counter[tuple[str, str]]:
    return Counter(
        {
            (uuid, name): sum(part.get(name, 0) for part in provider.allocations.values())
            for uuid, provider in of.providers.items()
            for name in CLASSES
        }
    )


@given(cases())
def test_a_reshape_loses_and_exceeds_nothing_and_is_complete(case: tuple[Layout, WantedLayout]):
    now, want = case
    plan = plan_reshape(now, want)
    if isinstance(plan, Reshape):
        check_kept(now, want, plan)
        check_fit(now, plan)
        assert plan_reshape(after(now, plan), want) is None
    if isinstance(plan, ReshapeRefusal):
        assert plan.consumer in now.consumers
        assert plan.quantity > 0


def check_kept(now: Layout, want: WantedLayout, plan: Reshape) -> None:
    """Check that every consumer keeps what it has."""
    for name, consumer in plan.consumers.items():
        before = now.consumers[name]
        added = total(
            {
                str(number): {each.resource_class: each.quantity}
                for number, each in enumerate(plan.transfers)
                if each.consumer == name and each.source is None
            }
        )
        assert total(consumer.allocations) == total(before.allocations) + added
        claimed: Counter[str] = Counter()
        for (_, each), number in want.claimed.get(name, {}).items():
            claimed[each] += number
        ours = total({u: p for u, p in consumer.allocations.items() if u != "elsewhere"})
        assert all(ours[each] <= claimed[each] for each in added)
        assert replace(consumer, allocations={}) == replace(before, allocations={})
        assert consumer.allocations.get("elsewhere") == before.allocations.get("elsewhere")
    assert all(
        each.generation == (now.providers[uuid].generation if uuid in now.providers else 0)
        for uuid, each in plan.providers.items()
    )


def check_fit(now: Layout, plan: Reshape) -> None:
    """Check that allocations fit the inventories."""
    used, before = usage(after(now, plan)), usage(now)
    for uuid, provider in plan.providers.items():
        for name in CLASSES:
            quantity = used[uuid, name]
            if name not in provider.inventories:
                assert quantity == 0, "an inventory with allocations would be removed"
                continue
            each = provider.inventories[name]
            capacity = math.floor((each.total - each.reserved) * each.allocation_ratio)
            assert quantity <= max(capacity, before[uuid, name])
