"""The JSON Schemas of events: every event that an agent records is valid."""

import jsonschema
import msgspec
import pytest

from rtagent.model.claim import PCPU
from rtagent.model.event import EVENT_TYPES
from rtagent.model.event_payloads import ClaimPayload, MovePayload
from rtagent.rpc import schemas
from rtagent.testing.memory_store import Disk
from tests.support.agents import LEASE, OTHER, Agent, facts, pinned
from tests.support.pci_hosts import GPU_0


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_field_of_a_payload_is_described_or_plain(name):
    schema = schemas.event(EVENT_TYPES[name])
    jsonschema.Draft202012Validator.check_schema(schema)
    document = schemas.resolve(schema, schema)
    assert document["properties"]["event_type"]["const"] == name
    payload = schemas.resolve(document["properties"]["payload"], schema)
    assert payload["description"] and set(payload["required"]) == set(payload["properties"])


def test_recorded_events_are_valid():
    agent = Agent(gpus=(GPU_0,))
    claim = agent.run(pinned(2, "gpu:1"))
    agent.release(claim)
    agent.world.unplug(GPU_0)
    agent.audit()
    events = [
        event
        for row in agent.disk.node(agent.node.uuid).notifications
        for event in msgspec.json.decode(row.document)
    ]
    for event in events:
        jsonschema.validate(event, schemas.event(EVENT_TYPES[event["event_type"]]))
    assert [event["event_type"] for event in events] == [
        "pci_device.appear",
        "compute_node.update",
        "claim.create",
        "claim.activate",
        "claim.release",
        "pci_device.vanish",
    ]
    created, activated = (msgspec.convert(event["payload"], ClaimPayload) for event in events[2:4])
    assert (created.before_state, activated.before_state) == (None, "building")
    assert set(created.host_cpus) == {int(unit) for kind, unit in claim.units if kind == PCPU}
    assert created.pci_devices == (GPU_0,)


def test_a_move_has_its_steps_at_both_ends():
    disk, move = Disk(), facts("resize", source_compute="h1", dest_compute="h2")
    source, dest = Agent(1, disk), Agent(2, disk)
    source.run()
    dest.claim_move(move)
    source.move("start_move_out", move)
    dest.move("finish_move", move)
    source.move("drop_move_claim_at_source", move)
    types = {
        agent: [
            (event["event_type"], msgspec.convert(event["payload"], MovePayload).before_status)
            for row in disk.node(agent.node.uuid).notifications
            for event in msgspec.json.decode(row.document)
            if event["event_type"].startswith("move.")
        ]
        for agent in (source, dest)
    }
    assert [name for name, _ in types[source]] == ["move.start", "move.confirm"]
    assert [name for name, _ in types[dest]] == ["move.start", "move.finish"]
    assert types[dest] == [("move.start", None), ("move.finish", "pre-migrating")]


def test_what_audits_do_to_claims_has_types_of_its_own():
    agent = Agent()
    agent.run()
    agent.world.domains.clear()
    agent.audit()
    agent.build(owner=OTHER)
    agent.clock.advance(LEASE + 1)
    agent.audit()
    types = [
        event["event_type"]
        for row in agent.disk.node(agent.node.uuid).notifications
        for event in msgspec.json.decode(row.document)
        if event["event_type"].startswith("claim.")
    ]
    created = ["claim.create", "claim.activate", "claim.suspect", "claim.create"]
    assert types == [*created, "claim.expire"]
