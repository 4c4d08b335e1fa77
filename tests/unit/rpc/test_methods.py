"""The method table, and what is made from it: clients and reference."""

import inspect
import itertools
import re

import pytest

from rtagent import errors
from rtagent.lifecycle.transitions import INTERNAL_VERBS, LIFE_CYCLE, METHOD_NAMES
from rtagent.rpc import VERSIONS, schemas
from rtagent.rpc import errors as rpc_errors
from rtagent.rpc.client import AgentAPI, source_of
from rtagent.rpc.method import Method
from rtagent.rpc.methods import METHODS, TABLES
from rtagent.rpc.reference import reference
from rtagent.scheduler import errors as scheduler_errors


@pytest.mark.parametrize("topic", TABLES)
def test_the_version_that_clients_send_is_served(topic: str):
    sent, served = (tuple(map(int, v.split("."))) for v in (VERSIONS[topic], TABLES[topic].version))
    assert sent[0] == served[0] and sent <= served


@pytest.mark.parametrize("topic", TABLES)
def test_effects_are_sentences_and_errors_exist_and_are_expected(topic: str):
    places = (errors, rpc_errors, scheduler_errors)
    for method in TABLES[topic].methods.values():
        assert method.effect[0].isupper() and method.effect.endswith(".")
        assert len(set(method.all_errors)) == len(method.all_errors)
        for name in method.all_errors:
            found = next(getattr(place, name) for place in places if hasattr(place, name))
            assert found.expected


def test_illegal_transitions_name_methods_of_the_table():
    named = {METHOD_NAMES.get(verb, verb) for verb in LIFE_CYCLE.keys() - INTERNAL_VERBS}
    assert named <= set(METHODS)


@pytest.mark.parametrize(
    "method", [each for each in METHODS.values() if not each.cast], ids=lambda m: m.name
)
def test_a_client_method_takes_the_arguments_of_its_schema(method: Method):
    parameters = inspect.signature(getattr(AgentAPI, method.name)).parameters
    schema = schemas.resolve(schemas.arguments(method), schemas.arguments(method))
    assert set(parameters) == {"self", "context", "timeout", *schema["properties"]}
    for name in {*schema["required"]} - {"operation_id"}:
        assert parameters[name].default is inspect.Parameter.empty
        assert parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


@pytest.mark.parametrize(
    ("name", "by_position"),
    [
        ("instance_claim", ["instance"]),
        ("resize_claim", ["instance", "flavor", "migration"]),
        ("free_pci_device_claims_for_instance", ["instance_uuid", "claim_uuid"]),
        ("ping", []),
    ],
)
def test_arguments_by_position(name: str, by_position: list[str]):
    parameters = inspect.signature(getattr(AgentAPI, name)).parameters.values()
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert [p.name for p in parameters if p.kind is kind] == ["context", *by_position]


def test_source_of_a_claim():
    devices = [
        {"alias_name": "gpu", "request_id": "r1", "address": "0000:08:00.0"},
        {"alias_name": "gpu", "request_id": "r1", "address": "0000:09:00.0"},
        {"alias_name": None, "request_id": "port", "address": "0000:0a:00.1"},
    ]
    claim = {"numa_topology": {"cells": [{"pagesize": 2048}, {"pagesize": None}]}, "pci": devices}
    addresses = {"gpu": ["0000:08:00.0", "0000:09:00.0"], "port": ["0000:0a:00.1"]}
    assert source_of(claim) == {"page_sizes": [2048, None], "devices": addresses}
    assert source_of({"numa_topology": None, "pci": []}) == {"page_sizes": [], "devices": {}}


def titles(text: str) -> set[str]:
    lines = text.splitlines()
    return {
        title
        for title, line in itertools.pairwise(lines)
        if line and set(line) in ({"-"}, {"~"}) and len(line) == len(title)
    }


@pytest.mark.parametrize("topic", sorted(TABLES))
def test_every_method_has_a_section_and_every_link_a_target(topic):
    text = reference(topic)
    assert set(TABLES[topic].methods) <= titles(text)
    assert set(re.findall(r"\b([A-Z]\w+)_\b", text)) <= titles(text)


def test_fields_have_type_unit_and_optionality():
    text = reference()
    assert "- ``operation_id``: uuid; becomes the claim's uuid." in text
    assert "- ``memory_mb``: integer from 1; MB." in text
    assert "- ``root_gb``: integer from 0, optional; GB." in text
    assert "- ``limits``: Limits_ or null, optional" in text
    assert "- ``kind``: ``attach`` or ``build`` or ``evacuation`` or ``live-migration``" in text
