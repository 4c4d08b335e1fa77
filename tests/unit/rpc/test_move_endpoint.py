"""The methods of moves, and of what they leave in Placement."""

import pytest

from rtagent.errors import ClaimConflict, PlacementUnavailable
from rtagent.model.consumers import DeletionReason
from tests.support.hosts import uid
from tests.support.rpc import Agent, build, migration, operation

SAME = {"vcpus": 1, "memory_mb": 1024}
BIGGER = {"vcpus": 2, "memory_mb": 2048}


@pytest.mark.parametrize(("flavor", "kind"), [(SAME, "migration"), (BIGGER, "resize")])
def test_a_resize_to_the_same_flavor_is_a_cold_migration(agent: Agent, flavor, kind):
    claim = agent.invoke("resize_claim", **build(flavor=flavor))
    assert (claim["kind"], claim["state"]) == (kind, "incoming")
    assert (claim["vcpus"], claim["memory_mb"]) == (flavor["vcpus"], flavor["memory_mb"])


def test_a_rebuild_uses_the_new_image(agent: Agent):
    image = {"properties": {"hw_cpu_sockets": "1"}}
    claim = agent.invoke("rebuild_claim", **build(image=image, migration=migration("evacuation")))
    assert claim["image"]["properties"] == image["properties"]


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("live_migration_claim", "live-migration"),
        ("rebuild_claim", "evacuation"),
        ("resize_claim", "resize"),
    ],
)
def test_moves_without_a_migration_get_a_record_of_their_own(agent: Agent, method: str, kind: str):
    for end, left in (
        ("finish_evacuation" if kind == "evacuation" else "finish_move", "active"),
        ("drop_move_claim_at_dest", None),
        ("drop_move_claim", None),
    ):
        arguments = build(**({"flavor": BIGGER} if kind == "resize" else {}))
        claim = agent.invoke(method, **arguments)
        assert (claim["migration_uuid"], claim["kind"]) == (claim["uuid"], kind)
        assert agent.invoke(method, **arguments) == claim  # a repeat
        record = agent.tracker.snapshot().migrations[claim["uuid"]]
        assert (record.migration_type, record.role) == (kind, "dest")
        assert record.source_compute is None
        facts = {"uuid": claim["migration_uuid"], "migration_type": kind}
        agent.invoke(end, instance_uuid=claim["owner_id"], migration=facts, **operation())
        live = agent.tracker.snapshot().claims.get(claim["uuid"])
        assert (live.state if live else None) == left


def test_a_guest_moves_out_and_the_move_is_confirmed(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    agent.invoke("activate_claim", claim_uuid=claim["uuid"], **operation())
    out = {"instance_uuid": claim["owner_id"], "migration": migration("migration")}
    assert agent.invoke("start_move_out", **out, **operation())["state"] == "outgoing"
    assert agent.invoke("drop_move_claim_at_source", **out, **operation()) is None
    assert not agent.tracker.snapshot().claims


@pytest.mark.parametrize("reason", list(DeletionReason))
def test_an_allocation_is_deleted_once_for_each_operation(agent: Agent, reason: DeletionReason):
    instance = uid()
    call = {"instance_uuid": instance} | operation()
    for _ in range(2):
        assert agent.invoke(reason.method, **call) is None
    assert agent.deleted == [(instance, reason)]
    agent.invoke(reason.method, instance_uuid=instance, **operation())
    assert agent.deleted == [(instance, reason)] * 2
    with pytest.raises(ClaimConflict):
        agent.invoke(reason.method, **call | {"instance_uuid": uid()})


def test_a_call_that_failed_is_made_again_when_it_is_repeated(agent: Agent):
    call = {"instance_uuid": uid()} | operation()
    agent.placement_error = PlacementUnavailable("gone")
    with pytest.raises(PlacementUnavailable):
        agent.invoke("delete_allocation_for_evacuated_instance", **call)
    agent.placement_error = None
    agent.invoke("delete_allocation_for_evacuated_instance", **call)
    assert len(agent.deleted) == 1
