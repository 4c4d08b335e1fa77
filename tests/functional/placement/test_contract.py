"""The same rules for the client of a real Placement and for the fake."""

import pytest

from rtagent.errors import PlacementConflict, PlacementError
from rtagent.placement.memory import MemoryPlacement
from tests.support.hosts import uid

RECORD = {
    "total": 10,
    "reserved": 1,
    "min_unit": 1,
    "max_unit": 10,
    "step_size": 1,
    "allocation_ratio": 1.5,
}


@pytest.fixture(params=["memory", "http"])
def api(request):
    if request.param == "memory":
        return MemoryPlacement()
    return request.getfixturevalue("node").client()


@pytest.fixture
def allocate_(api, request):
    """Return a function that allocates from a provider, as another client does."""
    if isinstance(api, MemoryPlacement):
        return api.allocate
    node = request.getfixturevalue("node")

    def allocate(uuid, consumer, resources):
        node.uuid = uuid
        assert node.allocate(consumer, resources) == 204

    return allocate


@pytest.fixture
def provider(api):
    """Create a provider and return its uuid; its name begins with p."""
    uuid = uid()
    api.create_provider(uuid, f"p{uuid}")
    return uuid


def test_a_created_provider_can_be_read(api):
    uuid = uid()
    assert api.provider(uuid) is None
    assert api.provider_named(f"p{uuid}") is None
    made = api.create_provider(uuid, f"p{uuid}")
    assert (made["uuid"], made["name"], made["generation"]) == (uuid, f"p{uuid}", 0)
    for found in (api.provider(uuid), api.provider_named(f"p{uuid}")):
        assert (found["uuid"], found["name"], found["generation"]) == (uuid, f"p{uuid}", 0)


def test_a_child_provider_is_created(api, provider):
    assert api.create_provider(uid(), f"c{provider}", provider)["generation"] == 0


def test_a_child_needs_an_existing_parent(api):
    with pytest.raises(PlacementError, match="parent"):
        api.create_provider(uid(), f"c{uid()}", uid())


def test_deleting_a_provider_is_idempotent(api, provider):
    api.put_inventories(provider, 0, {"VCPU": RECORD})
    for _ in range(2):
        api.delete_provider(provider)
        assert api.provider(provider) is None


def test_a_provider_in_use_cannot_be_deleted(api, provider, allocate_):
    api.put_inventories(provider, 0, {"VCPU": RECORD})
    allocate_(provider, uid(), {"VCPU": 2})
    with pytest.raises(PlacementError) as caught:
        api.delete_provider(provider)
    assert caught.value.kwargs["code"] == "placement.resource_provider.inuse"
    assert api.provider(provider)


@pytest.mark.parametrize("what", ["uuid", "name"])
def test_uuid_and_name_of_a_provider_are_unique(api, provider, what):
    uuid, name = (provider, uid()) if what == "uuid" else (uid(), f"p{provider}")
    with pytest.raises(PlacementError) as caught:
        api.create_provider(uuid, name)
    assert type(caught.value) is PlacementError
    assert caught.value.kwargs["code"] == "placement.duplicate_name"


def test_inventories_and_traits_are_replaced(api, provider):
    generation = api.put_inventories(provider, 0, {"VCPU": RECORD})
    generation = api.put_traits(provider, generation, ["COMPUTE_NODE"])
    assert api.inventories(provider) == {
        "inventories": {"VCPU": RECORD},
        "resource_provider_generation": generation,
    }
    assert api.traits(provider) == {
        "traits": ["COMPUTE_NODE"],
        "resource_provider_generation": generation,
    }


def test_an_old_generation_conflicts(api, provider):
    generation = api.put_inventories(provider, 0, {})
    with pytest.raises(PlacementConflict):
        api.put_inventories(provider, generation - 1, {"VCPU": RECORD})
    with pytest.raises(PlacementConflict):
        api.put_traits(provider, generation - 1, [])
    assert api.inventories(provider)["inventories"] == {}


def test_allocations_increase_the_generation(api, provider, allocate_):
    generation = api.put_inventories(provider, 0, {"VCPU": RECORD})
    consumer = uid()
    allocate_(provider, consumer, {"VCPU": 2})
    assert api.provider(provider)["generation"] > generation
    found = api.allocations(provider)["allocations"]
    assert {c: allocation["resources"] for c, allocation in found.items()} == {
        consumer: {"VCPU": 2}
    }


def test_an_inventory_in_use_cannot_be_removed(api, provider, allocate_):
    api.put_inventories(provider, 0, {"VCPU": RECORD})
    allocate_(provider, uid(), {"VCPU": 2})
    generation = api.provider(provider)["generation"]
    with pytest.raises(PlacementError) as caught:
        api.put_inventories(provider, generation, {})
    assert caught.value.kwargs["code"] == "placement.inventory.inuse"
    drained = {**RECORD, "reserved": RECORD["total"]}
    api.put_inventories(provider, generation, {"VCPU": drained})


def test_reserved_above_the_total_is_refused(api, provider):
    with pytest.raises(PlacementError) as caught:
        api.put_inventories(provider, 0, {"VCPU": {**RECORD, "reserved": 11}})
    assert type(caught.value) is PlacementError


def test_resource_classes_must_exist(api, provider):
    custom = f"CUSTOM_{provider[-12:].upper()}"
    with pytest.raises(PlacementError):
        api.put_inventories(provider, 0, {custom: RECORD})
    for _ in range(2):
        api.ensure_classes([custom, "VCPU"])
    api.put_inventories(provider, 0, {custom: RECORD})


def test_traits_must_exist(api, provider):
    custom = f"CUSTOM_{provider[-12:].upper()}"
    for name in (custom, "HW_NOT_INVENTED"):
        with pytest.raises(PlacementError) as caught:
            api.put_traits(provider, 0, [name])
        assert type(caught.value) is PlacementError
    names = [custom, "COMPUTE_NODE", "HW_NOT_INVENTED"]
    assert api.ensure_traits(names) == {custom, "COMPUTE_NODE"}
    assert api.ensure_traits(names) == {custom, "COMPUTE_NODE"}
    api.put_traits(provider, 0, [custom, "COMPUTE_NODE"])


@pytest.mark.parametrize("call", ["inventories", "traits", "allocations"])
def test_reading_a_missing_provider_is_a_conflict(api, call):
    with pytest.raises(PlacementConflict):
        getattr(api, call)(uid())
    with pytest.raises(PlacementConflict):
        api.put_traits(uid(), 0, [])
