"""The form of "would it fit?"."""

import pytest

from rtagent.api.page.fit import ALIAS, mistakes, parse
from rtagent.errors import InvalidRequest, NodeNotReady, PropertyInvalid
from rtagent.rpc.methods import METHODS
from rtagent.rpc.schemas import validate

SIZE = {"vcpus": "2", "memory_mb": "1024"}


def test_the_form_makes_arguments_of_test_claim():
    assert parse({}).request is None
    fields = {"root_gb": "5", "cpu_policy": "dedicated", "alias": "gpu", "devices": "2"}
    specs = "hw:cpu_realtime = yes\n\n hw:cpu_realtime_mask=^0 "
    form = parse({**SIZE, **fields, "specs": specs, "image": "hw_firmware_type=uefi"})
    assert form.request is not None
    instance = form.request["instance"]
    realtime = {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}
    expected = {**realtime, "hw:cpu_policy": "dedicated", ALIAS: "gpu:2"}
    assert instance["flavor"].pop("extra_specs") == expected
    assert instance["flavor"] == {"vcpus": 2, "memory_mb": 1024, "root_gb": 5}
    assert instance["image"] == {"properties": {"hw_firmware_type": "uefi"}}


@pytest.mark.parametrize(
    ("values", "field", "part"),
    [
        ({"vcpus": ""}, "vcpus", "from 1"),
        ({"vcpus": "0"}, "vcpus", "from 1"),
        ({"memory_mb": "x"}, "memory_mb", "from 1"),
        ({"memory_mb": "99999999999999999999"}, "memory_mb", "2147483647"),
        ({"root_gb": "-1"}, "root_gb", "from 0"),
        ({"swap": "\u0661"}, "swap", "from 0"),
        ({"cpu_policy": "x"}, "cpu_policy", "shared, dedicated, mixed"),
        ({"alias": "gpu", "devices": "0"}, "devices", "at least 1"),
        ({"specs": "abc"}, "specs", "KEY=VALUE"),
        ({"specs": "a=1\na=2"}, "specs", "given twice"),
        ({"specs": "hw:cpu_policy=shared", "cpu_policy": "mixed"}, "specs", "another value"),
        ({"image": "=1"}, "image", "KEY=VALUE"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_asked(values, field, part):
    form = parse({**SIZE, **values})
    assert form.request is None
    assert part in form.errors[field]
    assert set(form.errors) == {field}


@pytest.mark.parametrize("query", [{"nonsense": "1"}, {"specs": "x" * 100_000}])
def test_a_query_that_no_form_makes_is_refused(query):
    with pytest.raises(InvalidRequest):
        parse(query)


def test_mistakes_are_shown_at_their_fields():
    form = parse({**SIZE, "specs": f"{'k' * 300}=1"})
    assert form.request is not None
    with pytest.raises(InvalidRequest) as refused:
        validate(METHODS["test_claim"], form.request)
    assert set(mistakes(refused.value)) == {"specs"}


@pytest.mark.parametrize(
    "error",
    [NodeNotReady("it starts"), PropertyInvalid(properties={"hw:x": "y"}, rule="must be z")],
)
def test_other_mistakes_are_shown_above_the_form(error):
    assert mistakes(error) == {"": error.message}
