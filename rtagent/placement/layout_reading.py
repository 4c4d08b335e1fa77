"""Read from Placement what a reshape depends on, and write its documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import msgspec
from msgspec.structs import replace

from rtagent.model.consumers import INSTANCE, MIGRATION
from rtagent.model.node_state import NodeState
from rtagent.model.provider_names import provider_uuid
from rtagent.placement.adoption import device_children
from rtagent.placement.api import PlacementAPI
from rtagent.placement.consumer_parts import UNTYPED
from rtagent.placement.layout import (
    Consumer,
    Layout,
    ProviderLayout,
    Quantities,
    WantedLayout,
    consumers_with,
    new_pools,
    old_pools,
    wanted_layout,
)
from rtagent.placement.provider import InventoryRecord, Tree, inventory_records
from rtagent.placement.reshape import Refusal, Reshape, plan_reshape


def read_and_plan(
    api: PlacementAPI, state: NodeState, tree: Tree
) -> tuple[Layout, Reshape | Refusal | None]:
    """Read what is needed, and plan the reshape of a state's tree."""
    wanted = wanted_layout(state, tree)
    now = _with_allocations(api, state, _read_inventories(api, state, tree), wanted)
    return now, plan_reshape(now, wanted)


def reshape_documents(plan: Reshape) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the inventories and the allocations of ``POST /reshaper``."""
    inventories = {
        uuid: {
            "inventories": msgspec.to_builtins(each.inventories),
            "resource_provider_generation": each.generation,
        }
        for uuid, each in plan.providers.items()
    }
    allocations = {
        uuid: {
            "allocations": {
                provider: {"resources": dict(part)} for provider, part in each.allocations.items()
            },
            "consumer_generation": each.generation,
            "consumer_type": each.consumer_type,
            "project_id": each.project_id,
            "user_id": each.user_id,
        }
        for uuid, each in plan.consumers.items()
    }
    return inventories, allocations


def records(document: Mapping[str, Any]) -> dict[str, InventoryRecord]:
    """Return the inventories of a provider's document."""
    return inventory_records.convert(document["inventories"])


def _read_inventories(api: PlacementAPI, state: NodeState, tree: Tree) -> Layout:
    """Read the inventories of this agent's providers: the root, and the children of devices."""
    node, policy = state.node, state.policy.placement
    listing = api.tree(node.uuid)
    own = {provider.uuid for provider in tree.providers} | {
        child.uuid
        for child in device_children(node, listing)
        if child.uuid == provider_uuid(node, policy, child.suffix)
    }
    return Layout(
        providers={
            each["uuid"]: ProviderLayout(
                name=each["name"],
                generation=found["resource_provider_generation"],
                inventories=records(found),
            )
            for each in listing
            if each["uuid"] in own
            for found in [api.inventories(each["uuid"])]
        }
    )


def _with_allocations(
    api: PlacementAPI, state: NodeState, now: Layout, wanted: WantedLayout
) -> Layout:
    """Read the allocations that the plan depends on; none, if no inventory moves or is new."""
    moving = set(old_pools(now, wanted))
    users = {user for pool in new_pools(now, wanted) for user in consumers_with(wanted, pool)}
    if not moving and not users:
        return now
    names = {name for _, name in moving}
    targets = {uuid for uuid, name in wanted.inventories if name in names}
    listed: dict[str, Mapping[str, Quantities]] = {
        uuid: {user: part["resources"] for user, part in found["allocations"].items()}
        for uuid in sorted((targets | {uuid for uuid, _ in moving}) & now.providers.keys())
        for found in [api.allocations(uuid)]
    }
    users |= {user for uuid, name in moving for user, part in listed[uuid].items() if name in part}
    consumers = dict(_consumers(api, state, users))
    providers = {
        uuid: replace(
            provider,
            allocations={
                # A consumer may have changed since its providers were read.
                **{user: a for user, a in listed.get(uuid, {}).items() if user not in users},
                **{u: c.allocations[uuid] for u, c in consumers.items() if uuid in c.allocations},
            },
        )
        for uuid, provider in now.providers.items()
    }
    return Layout(providers=providers, consumers=consumers)


def _consumers(
    api: PlacementAPI, state: NodeState, uuids: Set[str]
) -> Iterator[tuple[str, Consumer]]:
    """Yield those that have allocations."""
    for uuid in sorted(uuids):
        found = api.consumer(uuid)
        if found["allocations"]:
            type_ = found["consumer_type"]
            if type_ == UNTYPED:  # as Nova writes them
                type_ = MIGRATION if uuid in state.migrations else INSTANCE
            yield (
                uuid,
                Consumer(
                    generation=found["consumer_generation"],
                    project_id=found["project_id"],
                    user_id=found["user_id"],
                    consumer_type=type_,
                    allocations={
                        provider: part["resources"]
                        for provider, part in found["allocations"].items()
                    },
                ),
            )
