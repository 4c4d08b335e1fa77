"""The Python client, as far as it needs no message bus."""

import inspect

import pytest
from oslo_context.context import RequestContext

from rtagent.rpc import schemas
from rtagent.rpc.client import AgentAPI, source_of
from rtagent.rpc.method import Method
from rtagent.rpc.methods import METHODS

ALL = [method for method in METHODS.values() if not method.cast]


@pytest.mark.parametrize("method", ALL, ids=lambda m: m.name)
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
        ("live_migration_claim", ["instance", "migration"]),
        ("rebuild_claim", ["instance", "migration"]),
        ("finish_move", ["instance_uuid", "migration"]),
        ("claim_pci_devices", ["instance", "pci_requests"]),
        ("free_pci_device_claims_for_instance", ["instance_uuid", "claim_uuid"]),
        ("quarantine_pci_device", ["address", "reason"]),
        ("set_service", ["disabled", "disabled_reason"]),
        ("ping", []),
    ],
)
def test_arguments_by_position(name: str, by_position: list[str]):
    parameters = inspect.signature(getattr(AgentAPI, name)).parameters.values()
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert [p.name for p in parameters if p.kind is kind] == ["context", *by_position]


@pytest.mark.parametrize("method", ALL, ids=lambda m: m.name)
def test_help_shows_effect_and_errors(method: Method):
    text = inspect.getdoc(getattr(AgentAPI, method.name)) or ""
    assert method.effect in text
    assert all(name in text for name in method.all_errors)


@pytest.mark.parametrize("arguments", [{}, {"instance": {}, "instnce": {}}])
def test_wrong_arguments_are_a_type_error(arguments):
    instance_claim = vars(AgentAPI)["instance_claim"]
    with pytest.raises(TypeError):
        instance_claim(None, RequestContext(overwrite=False), **arguments)


def test_source_of_a_claim():
    devices = [
        {"alias_name": "gpu", "request_id": "r1", "address": "0000:08:00.0"},
        {"alias_name": "gpu", "request_id": "r1", "address": "0000:09:00.0"},
        {"alias_name": None, "request_id": "port", "address": "0000:0a:00.1"},
    ]
    claim = {"numa_topology": {"cells": [{"pagesize": 2048}, {"pagesize": None}]}, "pci": devices}
    assert source_of(claim) == {
        "page_sizes": [2048, None],
        "devices": {"gpu": ["0000:08:00.0", "0000:09:00.0"], "port": ["0000:0a:00.1"]},
    }
    assert source_of({"numa_topology": None, "pci": []}) == {"page_sizes": [], "devices": {}}
