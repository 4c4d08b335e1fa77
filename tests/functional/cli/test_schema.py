"""rtagent schema, without a daemon."""

import json

import jsonschema
import pytest

from rtagent.cmd.exit_codes import Exit
from rtagent.rpc.methods import TABLES
from rtagent.rpc.reference import reference
from tests.functional.cli.shell import run


def test_schema_show_prints_valid_schemas_as_json():
    outcome = run("schema", "show", "release_claim", "-f", "json")
    assert outcome.code == 0
    shown = json.loads(outcome.out)
    jsonschema.Draft202012Validator.check_schema(shown["arguments"])
    jsonschema.Draft202012Validator.check_schema(shown["reply"])
    assert shown["method"] == "release_claim"
    assert "InvalidRequest" in shown["errors"]


def test_schema_show_prints_indented_json_in_a_table():
    outcome = run("schema", "show", "instance_claim")
    assert outcome.code == 0
    assert '"additionalProperties": false' in outcome.out


def test_an_unknown_method_is_a_usage_error():
    outcome = run("schema", "show", "nonsense")
    assert outcome.code == Exit.USAGE
    assert "instance_claim" in outcome.err


@pytest.mark.parametrize("topic", sorted(TABLES))
def test_each_topic_has_methods_schemas_and_a_reference(topic):
    methods = TABLES[topic].methods
    listed = run("schema", "list", "--topic", topic, "-f", "json").json
    changes = {name: method.changes for name, method in methods.items()}
    assert {row["Method"]: row["Changes state"] for row in listed} == changes
    for name in methods:
        shown = run("schema", "show", "--topic", topic, name, "-f", "json").json
        jsonschema.Draft202012Validator.check_schema(shown["arguments"])
    assert run("schema", "reference", "--topic", topic) == (0, reference(topic), "")
