"""The published JSON Schemas, their bounds, and those of events."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import msgspec
import pytest

from rtagent.model.claim import PCPU
from rtagent.model.event import EVENT_TYPES, ClaimPayload, MovePayload
from rtagent.rpc import AGENT, SCHEDULER, schemas
from rtagent.rpc.method import Method
from rtagent.rpc.methods import TABLES
from rtagent.testing.memory_store import Disk
from tests.support.agents import Agent, facts, pinned
from tests.support.pci_hosts import GPU_0
from tests.support.rpc_documents import FILES, alternatives, published

STORED = {topic: json.loads(file.read_text()) for topic, file in FILES.items()}


@pytest.mark.parametrize(
    ("topic", "section"), [(topic, section) for topic in STORED for section in STORED[topic]]
)
def test_schemas_are_those_of_agents_1_3_and_schedulers_1_0(topic: str, section: str):
    now, published_then = published(topic)[section], STORED[topic][section]
    assert now.keys() == published_then.keys()
    for name, stored in published_then.items():
        assert _unordered(now[name]) == _unordered(stored), name


def _unordered(schema: Any) -> Any:
    """Return a schema without the order of required properties, which has no meaning."""

    def unordered(document: dict[str, Any]) -> dict[str, Any]:
        required = document.get("required")
        return document | ({"required": set(required)} if isinstance(required, list) else {})

    return json.loads(json.dumps(schema), object_hook=unordered)


def test_both_topics_are_guarded():
    assert set(STORED) == {AGENT, SCHEDULER}


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_field_of_a_payload_is_described_or_plain(name):
    schema = schemas.event(EVENT_TYPES[name])
    jsonschema.Draft202012Validator.check_schema(schema)
    document = schemas.resolve(schema, schema)
    assert document["properties"]["event_type"]["const"] == name
    payload = schemas.resolve(document["properties"]["payload"], schema)
    assert payload["description"] and set(payload["required"]) == set(payload["properties"])


def recorded(agent: Agent) -> list[dict[str, Any]]:
    rows = agent.disk.node(agent.node.uuid).notifications
    return [event for row in rows for event in msgspec.json.decode(row.document)]


def test_recorded_events_are_valid():
    agent = Agent(gpus=(GPU_0,))
    claim = agent.run(pinned(2, "gpu:1"))
    agent.release(claim)
    agent.world.unplug(GPU_0)
    agent.audit()
    events = recorded(agent)
    for event in events:
        jsonschema.validate(event, schemas.event(EVENT_TYPES[event["event_type"]]))
    claims = [f"claim.{name}" for name in ("create", "activate", "release")]
    types = ["pci_device.appear", "compute_node.update", *claims, "pci_device.vanish"]
    assert [event["event_type"] for event in events] == types
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

    def steps(agent: Agent) -> list[tuple[str, str | None]]:
        moves = [event for event in recorded(agent) if event["event_type"].startswith("move.")]
        payloads = [msgspec.convert(event["payload"], MovePayload) for event in moves]
        types = [event["event_type"].removeprefix("move.") for event in moves]
        return list(zip(types, [payload.before_status for payload in payloads], strict=True))

    assert steps(source) == [("start", None), ("confirm", "migrating")]
    assert steps(dest) == [("start", None), ("finish", "pre-migrating")]


# -- bounds ---------------------------------------------------------------------------------------

#: Values that a schema leaves open, and what bounds them. The bounds of the message apply, too.
OPEN = {"update_host_state.report{}": "rtagent.scheduler.report_documents.report_from"}
#: What bounds a value of a type, by which word of the schema.
BOUNDS = {"string": "maxLength", "array": "maxItems", "integer": "maximum", "number": "maximum"}
#: Values that have no size.
PLAIN = {"boolean", "null"}


def unbounded(schema: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[str]:
    """Yield the path of each value without a bound. A type that contains itself has no end here."""
    for one in alternatives(schema, root):
        type_ = one.get("type")
        if {"enum", "const"} & one.keys() or type_ in PLAIN:
            continue
        if type_ == "object":
            yield from _of_object(one, root, path)
        elif type_ not in BOUNDS or not {BOUNDS[type_], "exclusiveMaximum"} & one.keys():
            yield path
        if "items" in one:
            yield from unbounded(one["items"], root, f"{path}[]")


def _of_object(schema: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        yield from unbounded(field, root, f"{path}.{name}")
    others = schema.get("additionalProperties", True)
    if others is False:
        return
    if "maxProperties" not in schema or "maxLength" not in schema.get("propertyNames", {}):
        yield path
    if isinstance(others, dict):
        yield from unbounded(others, root, f"{path}{{}}")


@pytest.mark.parametrize(
    "method",
    [method for table in TABLES.values() for method in table.methods.values()],
    ids=lambda method: method.name,
)
def test_every_value_of_a_request_has_a_bound(method: Method) -> None:
    schema = schemas.arguments(method)
    assert set(unbounded(schema, schema, method.name)) <= OPEN.keys()
