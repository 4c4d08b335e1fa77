"""The same rules for the client of a real Placement and for the fake."""

import pytest

from rtagent.errors import PlacementConflict, PlacementError
from rtagent.testing.placement import MemoryPlacement
from tests.support.allocating_agents import RECORD, consumer_content
from tests.support.hosts import uid

TEN = {**RECORD, "total": 10, "reserved": 1, "max_unit": 10, "allocation_ratio": 1.5}


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
def aggregate_(api, request):
    """Return a function that puts a provider into an aggregate, as an administrator does."""
    if isinstance(api, MemoryPlacement):
        return api.aggregate
    node = request.getfixturevalue("node")

    def aggregate(uuid, aggregate):
        path = f"/resource_providers/{uuid}/aggregates"
        generation = node.admin.get(path).json()["resource_provider_generation"]
        body = {"aggregates": [aggregate], "resource_provider_generation": generation}
        assert node.admin.put(path, json=body).status_code == 200

    return aggregate


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
    api.put_inventories(provider, 0, {"VCPU": TEN})
    for _ in range(2):
        api.delete_provider(provider)
        assert api.provider(provider) is None


def test_a_provider_in_use_cannot_be_deleted(api, provider, allocate_):
    api.put_inventories(provider, 0, {"VCPU": TEN})
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
    generation = api.put_inventories(provider, 0, {"VCPU": TEN})
    generation = api.put_traits(provider, generation, ["COMPUTE_NODE"])
    assert api.inventories(provider) == {
        "inventories": {"VCPU": TEN},
        "resource_provider_generation": generation,
    }
    assert api.traits(provider) == {
        "traits": ["COMPUTE_NODE"],
        "resource_provider_generation": generation,
    }


def test_an_old_generation_conflicts(api, provider):
    generation = api.put_inventories(provider, 0, {})
    with pytest.raises(PlacementConflict):
        api.put_inventories(provider, generation - 1, {"VCPU": TEN})
    with pytest.raises(PlacementConflict):
        api.put_traits(provider, generation - 1, [])
    assert api.inventories(provider)["inventories"] == {}


def test_allocations_increase_the_generation(api, provider, allocate_):
    generation = api.put_inventories(provider, 0, {"VCPU": TEN})
    consumer = uid()
    allocate_(provider, consumer, {"VCPU": 2})
    assert api.provider(provider)["generation"] > generation
    found = api.allocations(provider)["allocations"]
    assert {c: allocation["resources"] for c, allocation in found.items()} == {
        consumer: {"VCPU": 2}
    }


def test_an_inventory_in_use_cannot_be_removed(api, provider, allocate_):
    api.put_inventories(provider, 0, {"VCPU": TEN})
    allocate_(provider, uid(), {"VCPU": 2})
    generation = api.provider(provider)["generation"]
    with pytest.raises(PlacementError) as caught:
        api.put_inventories(provider, generation, {})
    assert caught.value.kwargs["code"] == "placement.inventory.inuse"
    drained = {**TEN, "reserved": TEN["total"]}
    api.put_inventories(provider, generation, {"VCPU": drained})


def test_reserved_above_the_total_is_refused(api, provider):
    with pytest.raises(PlacementError) as caught:
        api.put_inventories(provider, 0, {"VCPU": {**TEN, "reserved": 11}})
    assert type(caught.value) is PlacementError


def test_resource_classes_must_exist(api, provider):
    custom = f"CUSTOM_{provider[-12:].upper()}"
    with pytest.raises(PlacementError):
        api.put_inventories(provider, 0, {custom: TEN})
    for _ in range(2):
        api.ensure_classes([custom, "VCPU"])
    api.put_inventories(provider, 0, {custom: TEN})


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


def consumer(generation, **allocations):
    return consumer_content(allocations, {"consumer_generation": generation})


def test_a_consumer_is_written_and_removed(api, provider):
    api.put_inventories(provider, 0, {"VCPU": TEN})
    uuid = uid()
    assert api.consumer(uuid) == {"allocations": {}}
    api.put_consumer(uuid, consumer(None, **{provider: {"VCPU": 2}}))
    found = api.consumer(uuid)
    assert found["allocations"][provider]["resources"] == {"VCPU": 2}
    assert {key: found[key] for key in ("consumer_generation", "consumer_type", "project_id")} == {
        "consumer_generation": 1,
        "consumer_type": "INSTANCE",
        "project_id": "p",
    }
    with pytest.raises(PlacementConflict):
        api.put_consumer(uuid, consumer(None))
    api.put_consumer(uuid, consumer(1))
    assert api.consumer(uuid) == {"allocations": {}}
    assert api.allocations(provider)["allocations"] == {}


def test_a_consumer_that_does_not_fit_is_a_conflict(api, provider):
    api.put_inventories(provider, 0, {"PCPU": {**TEN, "allocation_ratio": 1.0}})
    with pytest.raises(PlacementConflict):
        api.put_consumer(uid(), consumer(None, **{provider: {"PCPU": 10}}))
    assert api.allocations(provider)["allocations"] == {}


def test_consumers_are_written_together_or_not_at_all(api, provider):
    api.put_inventories(provider, 0, {"VCPU": TEN})
    one, two = uid(), uid()
    content = consumer(None, **{provider: {"VCPU": 1}})
    with pytest.raises(PlacementConflict):
        api.post_consumers({one: content, two: {**content, "consumer_generation": 7}})
    assert api.allocations(provider)["allocations"] == {}
    api.post_consumers({one: content, two: content})
    assert api.allocations(provider)["allocations"].keys() == {one, two}


def test_inventories_and_allocations_are_reshaped_together(api, provider):
    child, uuid = uid(), uid()
    api.create_provider(child, f"c{child}", provider)
    generation = api.put_inventories(provider, 0, {"VCPU": TEN, "VGPU": TEN})
    api.put_consumer(uuid, consumer(None, **{provider: {"VCPU": 1, "VGPU": 2}}))
    generation = api.provider(provider)["generation"]
    inventories = {
        provider: {"inventories": {"VCPU": TEN}, "resource_provider_generation": generation},
        child: {"inventories": {"VGPU": TEN}, "resource_provider_generation": 0},
    }
    wanted = {provider: {"VCPU": 1}, child: {"VGPU": 2}}
    with pytest.raises(PlacementConflict):
        api.reshape(inventories, {uuid: consumer(9, **wanted)})
    assert set(api.inventories(provider)["inventories"]) == {"VCPU", "VGPU"}
    api.reshape(inventories, {uuid: consumer(1, **wanted)})
    found = api.consumer(uuid)["allocations"]
    assert {each: part["resources"] for each, part in found.items()} == wanted
    assert set(api.inventories(provider)["inventories"]) == {"VCPU"}


def test_a_tree_is_listed(api, provider):
    child, other = uid(), uid()
    api.create_provider(child, f"c{child}", provider)
    api.create_provider(other, f"p{other}")
    found = {each["uuid"]: each["parent_provider_uuid"] for each in api.tree(child)}
    assert found == {provider: None, child: provider}
    assert api.tree(uid()) == []


def test_sharing_providers_are_found_by_aggregate(api, provider, aggregate_):
    shared, aggregate = uid(), uid()
    api.create_provider(shared, f"s{shared}")
    generation = api.provider(shared)["generation"]
    api.put_traits(shared, generation, ["MISC_SHARES_VIA_AGGREGATE"])
    assert api.aggregates(provider) == frozenset()
    assert api.sharing_providers(frozenset()) == []
    aggregate_(provider, aggregate)
    aggregate_(shared, aggregate)
    assert api.aggregates(provider) == {aggregate}
    assert [each["uuid"] for each in api.sharing_providers({aggregate})] == [shared]
