"""Moves between two hosts with a database each, and a host that fails and returns."""

from typing import Any

import pytest

from rtagent.rpc.client import source_of
from tests.lab.guests import create, started
from tests.lab.rack import CONTEXT, FLAVOR, Rack, Served
from tests.support.hosts import uid


@pytest.fixture
def pair(rack: Rack) -> list[Served]:
    return rack.hosts("no-sriov", 2)


def migration_facts(kind: str, source: Served, dest: Served) -> dict[str, Any]:
    """Return a migration, as a conductor passes it."""
    hosts = {"source_compute": source.hostname, "dest_compute": dest.hostname}
    return {"uuid": uid(), "migration_type": kind, **hosts}


def states(host: Served) -> list[tuple[str, bool]]:
    """Return the state of each claim, and whether it is suspect."""
    return [(claim["state"], claim["suspect"] is not None) for claim in host.claims()]


def statuses(host: Served, move: dict[str, Any]) -> list[str]:
    """Return the statuses of the host's records of a move."""
    found = host.read("/migrations")["migrations"]
    return [each["status"] for each in found if each["uuid"] == move["uuid"]]


def used(host: Served) -> int:
    return int(host.node()["memory_mb_used"])


def agrees(host: Served) -> bool:
    """Whether an audit finds no drift."""
    host.audit()
    return not (host.read("/drift")["drift"] or host.read("/orphans")["orphans"])


def test_cold_migration(pair: list[Served]):
    source, dest = pair
    owner, idle = uid(), used(source)
    claim = started(source, owner)
    instance, move = {"uuid": owner, "flavor": FLAVOR}, migration_facts("migration", source, dest)

    made = dest.api.resize_claim(CONTEXT, instance, FLAVOR, move, source=source_of(claim))
    source.api.start_move_out(CONTEXT, owner, move)
    source.output("virsh", "destroy", owner)
    create(dest, made)
    dest.api.finish_move(CONTEXT, owner, move)
    assert agrees(source) and agrees(dest)
    assert (states(source), states(dest)) == ([("outgoing", False)], [("active", False)])
    assert used(source) == idle + 128, "held for a revert"

    source.api.drop_move_claim_at_source(CONTEXT, owner, move)
    assert (states(source), used(source)) == ([], idle)
    assert agrees(source) and agrees(dest)
    assert (states(dest), used(dest)) == ([("active", False)], idle + 128)
    assert (statuses(source, move), statuses(dest, move)) == (["confirmed"], ["finished"])


def test_evacuation_from_a_host_that_returns(pair: list[Served]):
    source, dest = pair
    owner, idle = uid(), used(source)
    started(source, owner)
    instance, move = {"uuid": owner, "flavor": FLAVOR}, migration_facts("evacuation", source, dest)

    source.kill()
    create(dest, dest.api.rebuild_claim(CONTEXT, instance, move))
    dest.api.finish_evacuation(CONTEXT, owner, move)
    assert agrees(dest)
    assert (states(dest), statuses(dest, move)) == ([("active", False)], ["done"])

    source.start().wait_served()
    assert agrees(source)
    assert (states(source), used(source)) == ([("active", True)], idle + 128), "not known yet"
    source.api.drop_move_claim_at_source(CONTEXT, owner, move)
    assert (states(source), used(source)) == ([], idle)
    assert statuses(source, move) == ["completed"]
    assert agrees(source)
