"""The allocations that a conductor writes itself, in a real Placement."""

from __future__ import annotations

import pytest

from rtagent.errors import PlacementConflict
from rtagent.placement.consumer_moves import ConsumerMoves
from tests.functional.placement.conftest import PATIENCE
from tests.support.hosts import uid


@pytest.fixture
def moves(node):
    node.start().sync_now(PATIENCE)
    return ConsumerMoves(node.client)


def candidate(node, vcpus):
    allocations = {node.uuid: {"resources": {"VCPU": vcpus, "MEMORY_MB": 512}}}
    return {"allocations": allocations, "mappings": {"": [node.uuid]}}


def vcpus(node, *consumers):
    """Return the vCPUs that consumers have."""
    admin, found = node.server.client("1.38"), []
    for each in consumers:
        parts = admin.get(f"/allocations/{each}").json()["allocations"].values()
        found.append(sum(part["resources"]["VCPU"] for part in parts))
    return found


def test_allocations_are_written_given_to_a_migration_and_back_and_deleted(node, moves):
    server, migration = uid(), uid()
    for number in (1, 2, 2):
        moves.write(server, candidate(node, number), "p", None)
        assert vcpus(node, server) == [number]
    for _ in range(2):  # the answer may have been lost
        moves.transfer(server, migration, migration=True)
        assert vcpus(node, server, migration) == [0, 2]
    shown = node.server.client("1.38").get(f"/allocations/{migration}").json()
    assert (shown["consumer_type"], shown["project_id"]) == ("MIGRATION", "p")

    moves.write(server, candidate(node, 1), "p", "u")
    for _ in range(2):
        moves.transfer(migration, server, migration=False)
        assert vcpus(node, server, migration) == [2, 0]
    assert moves.of(server) == candidate(node, 2)["allocations"]
    for _ in range(2):
        moves.delete(server)
        assert vcpus(node, server) == [0]


def test_a_host_without_enough_is_a_conflict(node, moves):
    with pytest.raises(PlacementConflict):
        moves.write(uid(), candidate(node, 10**6), None, None)
