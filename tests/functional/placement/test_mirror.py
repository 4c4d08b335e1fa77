"""The mirror and a real Placement."""

import threading

import pytest
from keystoneauth1 import token_endpoint
from keystoneauth1.http_basic import HTTPBasicAuth
from msgspec.structs import replace

from rtagent.errors import PlacementError, PlacementUnavailable
from rtagent.model.policy import PlacementPolicy
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.provider import Ownership
from rtagent.placement.schedule import LAST_RETRY
from tests.functional.placement.conftest import PATIENCE
from tests.servers.daemon import wait_until
from tests.support.audited_nodes import MeddlingPlacement
from tests.support.hosts import ManualClock, uid
from tests.support.provider_files import additional

#: The traits of every root provider.
OURS = {"COMPUTE_NODE", "OWNER_NOVA"}


def sent(node, requests):
    return [(r.method, r.path.removeprefix(node.path)) for r in requests]


def synced(node, **options):
    mirror = node.start(**options)
    mirror.sync_now(PATIENCE)
    return mirror


def test_the_first_push_sends_each_part_once(node):
    requests = node.requests_of(lambda: synced(node))

    assert node.inventories["VCPU"] == {
        "total": 8,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 8,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }
    assert {name: found["total"] for name, found in node.inventories.items()} == {
        "VCPU": 8,
        "MEMORY_MB": 16384,
        "DISK_GB": 100,
    }
    assert node.traits == {*OURS, "HW_CPU_X86_AVX", "COMPUTE_TRUSTED_CERTS"}
    provider = node.admin.get(node.path).json()
    assert (provider["name"], provider["root_provider_uuid"]) == (node.name, node.uuid)
    known = next(r.path for r in requests if r.path.startswith("/traits"))
    assert sent(node, requests) == [
        ("GET", ""),
        ("GET", known),
        ("POST", "/resource_providers"),
        ("PUT", "/traits"),
        ("PUT", "/inventories"),
    ]


def delete(part):
    """Return the deletion of a part of the provider, which names no generation."""

    def act(node):
        assert node.admin.delete(f"{node.path}{part}").status_code == 204

    return act


CHANGES = {
    "inventories": lambda node: node.set_inventories({}),
    "traits": lambda node: node.set_traits(set()),
    "all inventories deleted": delete("/inventories"),
    "an inventory deleted": delete("/inventories/VCPU"),
    "all traits deleted": delete("/traits"),
    "the provider deleted": delete(""),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_refresh_corrects_what_another_client_changed(node, change):
    node.refresh = 0.2
    mirror = synced(node)
    before = node.inventories, node.traits
    change(node)
    wait_until(lambda: node.exists and (node.inventories, node.traits) == before)
    assert mirror.error is None


def test_a_round_after_a_lost_request_publishes_what_is_new(node):
    """The same mirror repeats it: that it has asked for a name does not mean that there is one."""
    api, clock = MeddlingPlacement(node.client()), ManualClock()
    mirror = PlacementMirror(api, node.wanted, Ownership(), clock)

    def lose():
        raise PlacementUnavailable("no answer")

    for number, request in enumerate(("ensure_traits", "ensure_classes", "put_inventories") * 2):
        name = f"CUSTOM_{node.uuid[-4:].upper()}_{number}"
        offer = {"additional": (additional(name, 4),), "additional_traits": {"": {name}}}
        policy = replace(node.state.policy, placement=PlacementPolicy(**offer))
        node.state = replace(node.state, policy=policy)
        hooks = api.before if number < 3 else api.after
        hooks[request] = lose
        for failed in (True, False):
            mirror.wake()
            clock.advance(LAST_RETRY + 1)
            assert mirror.turn()
            assert (mirror.error is not None) is failed, request
        assert name in node.traits and name in node.inventories


def test_a_refresh_notices_another_name(node):
    node.refresh = 0.2
    mirror = synced(node)
    node.admin.put(node.path, json={"name": f"other-{node.name}"})
    wait_until(lambda: mirror.error is not None)
    assert f"other-{node.name}" in mirror.error.message


def test_placement_does_not_grant_what_a_foreign_domain_uses(node):
    node.use(vcpus=6, memory_mb=1)
    synced(node)
    assert node.allocate(uid(), {"VCPU": 3}) == 409
    assert node.allocate(uid(), {"VCPU": 2}) == 204


def test_the_mirror_converges_despite_a_stream_of_allocations(node):
    mirror = synced(node)
    done = threading.Event()

    def schedule():
        while not done.is_set():
            consumer = uid()
            node.allocate(consumer, {"MEMORY_MB": 1})
            node.allocate(consumer, {})

    scheduler = threading.Thread(target=schedule)
    scheduler.start()
    try:
        for memory_mb in range(1000, 1005):
            node.change(memory_mb=memory_mb)
            assert mirror.wait_synced(node.state.revision, PATIENCE)
    finally:
        done.set()
        scheduler.join()
    assert node.inventories["MEMORY_MB"]["total"] == 1004


def test_refused_credentials_are_reported(node):
    node.auth = HTTPBasicAuth(node.server.url, "u", "p")  # this Placement requires a token
    with pytest.raises(PlacementUnavailable, match="401"):
        node.start().sync_now(PATIENCE)


def test_a_role_without_write_access_is_an_error(node):
    node.auth = token_endpoint.Token(node.server.url, "reader")
    with pytest.raises(PlacementError, match="403") as caught:
        node.start().sync_now(PATIENCE)
    assert not isinstance(caught.value, PlacementUnavailable)
