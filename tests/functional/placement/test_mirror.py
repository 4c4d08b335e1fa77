"""The mirror before a real Placement."""

import threading

import pytest
from keystoneauth1 import token_endpoint
from keystoneauth1.http_basic import HTTPBasicAuth

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from tests.builders import uid
from tests.functional.placement.conftest import PATIENCE

READ = ["", "/traits", "/inventories"]


def asked(world, requests):
    return [(r.method, r.path.removeprefix(world.path)) for r in requests]


def synced(world, **options):
    mirror = world.start(**options)
    mirror.sync_now(PATIENCE)
    return mirror


def test_the_first_push(world):
    requests = world.requests_of(lambda: synced(world))

    assert world.inventories["VCPU"] == {
        "total": 8,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 8,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }
    assert {name: found["total"] for name, found in world.inventories.items()} == {
        "VCPU": 8,
        "MEMORY_MB": 16384,
        "DISK_GB": 100,
    }
    assert world.traits == {"COMPUTE_NODE", "HW_CPU_X86_AVX", "COMPUTE_TRUSTED_CERTS"}
    provider = world.admin.get(world.path).json()
    assert (provider["name"], provider["root_provider_uuid"]) == (world.name, world.uuid)
    known = next(r.path for r in requests if r.path.startswith("/traits"))
    assert asked(world, requests) == [
        ("GET", ""),
        ("GET", known),
        ("POST", "/resource_providers"),
        ("PUT", "/traits"),
        ("PUT", "/inventories"),
    ]


def test_an_idle_mirror_asks_nothing(world):
    mirror = synced(world)
    assert world.requests_of(lambda: mirror.sync_now(PATIENCE)) == []

    mirror.wake()
    assert world.requests_of(lambda: mirror.wait_synced(world.state.revision, PATIENCE)) == []


def test_a_change_is_one_request(world):
    mirror = synced(world)
    world.change(memory_mb=1000)
    requests = world.requests_of(lambda: mirror.sync_now(PATIENCE))
    assert asked(world, requests) == [("PUT", "/inventories")]
    assert world.inventories["MEMORY_MB"]["total"] == 1000


def test_a_disabled_host_is_marked(world):
    mirror = synced(world)
    world.disabled = True
    mirror.sync_now(PATIENCE)
    assert "COMPUTE_STATUS_DISABLED" in world.traits
    world.disabled = False
    mirror.sync_now(PATIENCE)
    assert "COMPUTE_STATUS_DISABLED" not in world.traits


def test_the_refresh_reads_and_mends(world):
    world.refresh = 0.2
    mirror = synced(world)
    world.set_inventories({})
    assert world.eventually(lambda: "VCPU" in world.inventories)
    assert mirror.error is None


def test_forgetting_reads_once(world):
    mirror = synced(world)
    mirror.forget()
    requests = world.requests_of(lambda: mirror.sync_now(PATIENCE))
    assert asked(world, requests) == [("GET", path) for path in READ]


def test_a_restart_with_nothing_new_only_reads(world):
    synced(world).stop()
    requests = world.requests_of(lambda: synced(world))
    assert asked(world, requests) == [("GET", path) for path in READ]


def test_what_others_set_is_kept_and_ours_is_withdrawn_after_a_restart(world):
    synced(world).stop()
    world.set_traits(world.traits | {"CUSTOM_GOLD"})
    world.set_inventories({**world.inventories, "VGPU": {"total": 2}})

    world.change(traits=frozenset({"HW_CPU_X86_AVX"}), disk_mb=0)
    synced(world)

    assert world.traits == {"COMPUTE_NODE", "HW_CPU_X86_AVX", "CUSTOM_GOLD"}
    assert set(world.inventories) == {"VCPU", "MEMORY_MB", "VGPU"}


def test_a_custom_trait_of_ours_is_made_and_withdrawn(world):
    ours = f"CUSTOM_{world.uuid[-4:].upper()}"
    world.change(traits=frozenset({ours}))
    mirror = synced(world)
    assert ours in world.traits
    world.change(traits=frozenset())
    mirror.sync_now(PATIENCE)
    assert world.traits == {"COMPUTE_NODE"}


def test_a_trait_that_placement_does_not_know_is_left_out(world):
    world.change(traits=frozenset({"HW_NOT_INVENTED", "HW_CPU_X86_AVX"}))
    mirror = synced(world)
    assert mirror.error is None
    assert world.traits == {"COMPUTE_NODE", "HW_CPU_X86_AVX"}


def test_all_may_be_reserved(world):
    world.use(vcpus=99, memory_mb=1_000_000)
    mirror = synced(world)
    assert mirror.error is None
    assert world.inventories["VCPU"]["reserved"] == 8


def test_what_a_foreign_domain_uses_placement_does_not_grant(world):
    world.use(vcpus=6, memory_mb=1)
    synced(world)
    assert world.allocate(uid(), {"VCPU": 3}) == 409
    assert world.allocate(uid(), {"VCPU": 2}) == 204


def test_a_second_writer_costs_a_reading_and_loses_nothing(world):
    mirror = synced(world)
    world.set_traits(world.traits | {"CUSTOM_GOLD"})
    world.change(memory_mb=1000)

    requests = world.requests_of(lambda: mirror.sync_now(PATIENCE))

    writes = [("PUT", "/inventories")]
    assert asked(world, requests) == [*writes, *(("GET", path) for path in READ), *writes]
    assert [r.status for r in requests if r.method == "PUT"] == [409, 200]
    assert "CUSTOM_GOLD" in world.traits


def test_against_a_stream_of_allocations_it_converges(world):
    mirror = synced(world)
    done = threading.Event()

    def schedule():
        while not done.is_set():
            consumer = uid()
            world.allocate(consumer, {"MEMORY_MB": 1})
            world.allocate(consumer, {})

    scheduler = threading.Thread(target=schedule)
    scheduler.start()
    try:
        for memory_mb in range(1000, 1005):
            world.change(memory_mb=memory_mb)
            assert mirror.wait_synced(world.state.revision, PATIENCE)
    finally:
        done.set()
        scheduler.join()
    assert world.inventories["MEMORY_MB"]["total"] == 1004


def test_a_provider_deleted_by_others_is_made_again(world):
    mirror = synced(world)
    assert world.admin.delete(world.path).status_code == 204
    world.change(memory_mb=1000)
    mirror.sync_now(PATIENCE)
    assert world.inventories["MEMORY_MB"]["total"] == 1000
    assert "COMPUTE_NODE" in world.traits


def test_an_outage_is_seen_and_ends_by_itself(world):
    mirror = synced(world)
    with world.server.outage():
        world.change(memory_mb=1000)
        with pytest.raises(PlacementUnavailable):
            mirror.sync_now(PATIENCE)
        assert mirror.seconds_behind > 0
        assert mirror.revision < world.state.revision
    assert mirror.wait_synced(world.state.revision, PATIENCE)
    assert (mirror.error, mirror.seconds_behind) == (None, 0.0)
    assert world.inventories["MEMORY_MB"]["total"] == 1000


def test_a_placement_that_hangs_is_given_up(world):
    mirror = synced(world, timeout=0.3)
    world.server.freeze()
    try:
        world.change(memory_mb=1000)
        with pytest.raises(PlacementUnavailable):
            mirror.sync_now(PATIENCE)
    finally:
        world.server.thaw()
    assert mirror.wait_synced(world.state.revision, PATIENCE)
    assert world.inventories["MEMORY_MB"]["total"] == 1000


def test_credentials_that_are_refused_are_seen(world):
    world.auth = HTTPBasicAuth(world.server.url, "u", "p")  # this Placement asks for a token
    with pytest.raises(PlacementUnavailable, match="401"):
        world.start().sync_now(PATIENCE)


def test_a_role_that_may_not_write_is_an_error(world):
    world.auth = token_endpoint.Token(world.server.url, "nobody")
    with pytest.raises(PlacementError, match="403") as caught:
        world.start().sync_now(PATIENCE)
    assert not isinstance(caught.value, PlacementUnavailable)


def test_a_name_that_another_provider_has(world):
    other = world.admin.post("/resource_providers", json={"name": world.name}).json()["uuid"]
    mirror = world.start()
    with pytest.raises(PlacementError, match=f"resource provider delete {other}"):
        mirror.sync_now(PATIENCE)

    assert world.admin.delete(f"/resource_providers/{other}").status_code == 204
    assert world.eventually(lambda: mirror.revision == world.state.revision)


def test_our_uuid_under_another_name(world):
    world.admin.post("/resource_providers", json={"name": f"x{world.name}", "uuid": world.uuid})
    with pytest.raises(PlacementError, match=f"resource provider set --name {world.name}"):
        world.start().sync_now(PATIENCE)
    assert world.inventories == {}


def test_an_inventory_in_use_is_drained_until_it_is_free(world):
    mirror = synced(world)
    consumer = uid()
    world.allocate(consumer, {"DISK_GB": 10})
    world.change(disk_mb=0, memory_mb=1000, traits=frozenset())

    with pytest.raises(PlacementError, match="in use") as caught:
        mirror.sync_now(PATIENCE)

    assert not isinstance(caught.value, PlacementConflict)
    assert world.inventories["MEMORY_MB"]["total"] == 1000
    assert world.inventories["DISK_GB"]["reserved"] == world.inventories["DISK_GB"]["total"]
    assert world.traits == {"COMPUTE_NODE"}

    world.allocate(consumer, {})
    assert world.eventually(lambda: mirror.revision == world.state.revision)
    assert "DISK_GB" not in world.inventories
