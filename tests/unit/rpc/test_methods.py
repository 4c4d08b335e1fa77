"""The method table, and what must agree with it."""

import inspect

import jsonschema
import pytest

from rtagent import errors
from rtagent.lifecycle.transitions import INTERNAL_VERBS, LIFE_CYCLE, METHOD_NAMES
from rtagent.rpc import errors as rpc_errors
from rtagent.rpc import schemas
from rtagent.rpc.client import AgentAPI, SchedulerAPI
from rtagent.rpc.method import Method
from rtagent.rpc.methods import METHODS, TABLES
from rtagent.rpc.topics import AGENT, VERSIONS
from rtagent.scheduler import errors as scheduler_errors
from tests.support.rpc import Agent
from tests.support.scheduler_rpc import SchedulerRpc

ALL = list(METHODS.values())


@pytest.mark.parametrize("topic", TABLES)
def test_the_endpoint_serves_the_methods_of_the_table_only(topic: str):
    served: Agent | SchedulerRpc = Agent() if topic == AGENT else SchedulerRpc()
    public = {name for name in dir(served.endpoint) if not name.startswith("_")}
    assert public == {*TABLES[topic].methods, "target"}  # `target` is oslo.messaging's own


@pytest.mark.parametrize("topic", TABLES)
def test_the_client_has_the_methods_that_are_not_cast(topic: str):
    functions = inspect.getmembers(AgentAPI if topic == AGENT else SchedulerAPI, callable)
    called = {name for name, method in TABLES[topic].methods.items() if not method.cast}
    assert {name for name, _ in functions if not name.startswith("_")} == called


@pytest.mark.parametrize("topic", TABLES)
def test_the_version_that_clients_send_is_served(topic: str):
    sent, served = (tuple(map(int, v.split("."))) for v in (VERSIONS[topic], TABLES[topic].version))
    assert sent[0] == served[0] and sent <= served


@pytest.mark.parametrize("method", ALL, ids=lambda m: m.name)
def test_schemas_are_valid_and_strict(method: Method):
    arguments = schemas.arguments(method)
    for schema in (arguments, schemas.reply(method)):
        jsonschema.Draft202012Validator.check_schema(schema)
    for definition in arguments["$defs"].values():
        assert definition["additionalProperties"] is False
    assert (
        "operation_id" in schemas.resolve(arguments, arguments)["required"]
    ) == method.takes_operation_id


@pytest.mark.parametrize("method", ALL, ids=lambda m: m.name)
def test_effects_are_sentences(method: Method):
    assert method.effect[0].isupper() and method.effect.endswith(".")
    assert "\n" not in method.effect


@pytest.mark.parametrize("topic", TABLES)
def test_errors_exist_and_are_expected(topic: str):
    places = (errors, rpc_errors, scheduler_errors)
    for method in TABLES[topic].methods.values():
        assert len(set(method.all_errors)) == len(method.all_errors)
        for name in method.all_errors:
            found = next(getattr(place, name) for place in places if hasattr(place, name))
            assert found.expected


def test_illegal_transitions_name_methods_of_the_table():
    named = {METHOD_NAMES.get(verb, verb) for verb in LIFE_CYCLE.keys() - INTERNAL_VERBS}
    assert named <= set(METHODS)
