"""Guests that move between two hosts with a database each, and a host that is lost and returns."""

from __future__ import annotations

from typing import Any

import pytest

from rtagent.rpc.move_calls import source_of
from tests.builders import uid
from tests.lab.guests import create, started
from tests.lab.rack import CONTEXT, FLAVOR, Rack, Served


@pytest.fixture
def pair(rack: Rack) -> list[Served]:
    return rack.hosts("no-sriov", 2)


def told(kind: str, source: Served, dest: Served) -> dict[str, Any]:
    """A migration, as a conductor tells of it."""
    hosts = {"source_compute": source.hostname, "dest_compute": dest.hostname}
    return {"uuid": uid(), "migration_type": kind, **hosts}


def states(host: Served) -> list[tuple[str, bool]]:
    """Of its claims: the state, and whether it is suspect."""
    return [(claim["state"], claim["suspect"] is not None) for claim in host.claims()]


def statuses(host: Served, move: dict[str, Any]) -> list[str]:
    """Of the host's records of a move."""
    found = host.read("/migrations")["migrations"]
    return [each["status"] for each in found if each["uuid"] == move["uuid"]]


def used(host: Served) -> int:
    return int(host.node()["memory_mb_used"])


def agrees(host: Served) -> bool:
    """Whether an audit finds nothing that is not as it was claimed."""
    host.audit()
    return not (host.read("/drift")["drift"] or host.read("/orphans")["orphans"])


def test_a_cold_migration(pair: list[Served]):
    source, dest = pair
    owner, idle = uid(), used(source)
    claim = started(source, owner)
    instance, move = {"uuid": owner, "flavor": FLAVOR}, told("migration", source, dest)

    made = dest.api.resize_claim(CONTEXT, instance, FLAVOR, move, source=source_of(claim))
    source.api.start_move_out(CONTEXT, owner, move)
    source.tell("virsh", "destroy", owner)
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


def test_an_evacuation_from_a_host_that_returns(pair: list[Served]):
    source, dest = pair
    owner, idle = uid(), used(source)
    started(source, owner)
    instance, move = {"uuid": owner, "flavor": FLAVOR}, told("evacuation", source, dest)

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
