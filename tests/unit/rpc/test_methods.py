"""The table of methods, and all that must agree with it."""

import inspect

import fastjsonschema
import jsonschema
import pytest

from rtagent import errors
from rtagent.rpc import schemas
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.endpoint import Endpoint
from rtagent.rpc.method import Method
from rtagent.rpc.methods import METHODS
from rtagent.transitions import CALLS, LIFE_CYCLE, OWN_VERBS
from tests.rpc_agents import Agent

ALL = list(METHODS.values())


def public(of: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(of, callable) if not name.startswith("_")}


def test_the_endpoint_serves_the_table_and_nothing_else():
    # `target` is oslo.messaging's own
    assert public(Endpoint) - {"target"} == set(METHODS)
    assert {name for name in dir(Agent().endpoint) if name[0] != "_"} == {*METHODS, "target"}


def test_the_client_has_a_method_for_each():
    assert public(AgentAPI) == set(METHODS)


@pytest.mark.parametrize("method", ALL, ids=lambda m: m.name)
def test_the_client_takes_what_the_method_takes(method: Method):
    takes = set(inspect.signature(getattr(AgentAPI, method.name)).parameters)
    assert takes - {"self", "context", "timeout"} >= set(
        schemas.resolve(schemas.arguments(method), schemas.arguments(method))["properties"]
    ) - {"node"}


@pytest.mark.parametrize("method", ALL, ids=lambda m: m.name)
def test_schemas_are_schemas_and_strict(method: Method):
    arguments = schemas.arguments(method)
    for schema in (arguments, schemas.reply(method)):
        jsonschema.Draft202012Validator.check_schema(schema)
        fastjsonschema.compile(schema)
    for definition in arguments["$defs"].values():
        assert definition["additionalProperties"] is False
    assert ("operation_id" in schemas.resolve(arguments, arguments)["required"]) == method.changes


@pytest.mark.parametrize("method", ALL, ids=lambda m: m.name)
def test_errors_exist_and_are_expected(method: Method):
    assert len(set(method.all_errors)) == len(method.all_errors)
    for name in method.all_errors:
        assert getattr(errors, name).expected


def test_what_an_illegal_transition_names_are_methods():
    assert {CALLS.get(verb, verb) for verb in LIFE_CYCLE.keys() - OWN_VERBS} <= set(METHODS)
