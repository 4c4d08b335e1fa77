"""The request spec of `select_destinations`: every field is checked, and named when it is wrong."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from rtagent.errors import InvalidRequest
from rtagent.model.server import RequestSpec
from rtagent.rpc import schemas
from rtagent.rpc.methods import SCHEDULER_API
from rtagent.rpc.scheduler_endpoint import SelectDestinations
from rtagent.rpc.schemas import resolve
from rtagent.rpc.validation import validate
from tests.support.hosts import uid
from tests.support.rpc_documents import jsonpath

SELECT = SCHEDULER_API.methods["select_destinations"]

#: Every field, with a value.
WHOLE: dict[str, Any] = {
    "flavor": {
        "vcpus": 2,
        "memory_mb": 2048,
        "root_gb": 10,
        "ephemeral_gb": 1,
        "swap": 512,
        "flavorid": "42",
        "name": "m1.small",
        "extra_specs": {"hw:cpu_policy": "dedicated"},
    },
    "image": {
        "id": "an-image",
        "disk_format": "qcow2",
        "min_ram": 512,
        "min_disk": 5,
        "properties": {"hw_architecture": "x86_64"},
    },
    "purpose": "resize",
    "project_id": "a-project",
    "user_id": "a-user",
    "os_type": "linux",
    "is_bfv": True,
    "availability_zone": "east",
    "pci_requests": [
        {
            "count": 1,
            "request_id": "r",
            "alias_name": "a1",
            "spec": [{"vendor_id": "8086"}],
            "numa_policy": "preferred",
            "source": "flavor_alias",
            "requester_id": "p",
        }
    ],
    "extra_resource": {"CUSTOM_A": 1, "CUSTOM_B": ["one"]},
    "requested_resources": [
        {
            "requester_id": "port-1",
            "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000},
            "required_traits": ["CUSTOM_PHYSNET_A"],
            "forbidden_traits": ["CUSTOM_OLD"],
            "in_tree": uid(1),
        }
    ],
    "required_traits": ["HW_CPU_X86_AVX"],
    "forbidden_traits": ["COMPUTE_STATUS_DISABLED"],
    "ignore_hosts": ["cn1"],
    "force_hosts": ["cn2"],
    "force_nodes": ["cn2.example"],
    "requested_destination": {
        "host": "cn2",
        "node": "cn2.example",
        "aggregates": [f"{uid(2)},{uid(3)}"],
        "forbidden_aggregates": [uid(4)],
    },
    "instance_group": {
        "uuid": uid(5),
        "policy": "anti-affinity",
        "rules": {"max_server_per_host": 2},
        "hosts": ["cn3"],
        "members": [uid(6)],
    },
    "scheduler_hints": {"same_host": [uid(7)], "query": "[]", "group": None},
    "network_metadata": {"physnets": ["a"], "tunneled": True},
    "consumer_generation": 3,
    "limits": {
        "vcpu": 8,
        "memory_mb": 4096,
        "disk_gb": 100,
        "numa_topology": {
            "cpu_allocation_ratio": 1.0,
            "ram_allocation_ratio": 1.5,
            "network_metadata": {"physnets": ["a"], "tunneled": False},
        },
    },
}

#: Refused at every place: no schema allows a list in which a list is.
WRONG = [[["wrong"]]]


def _accept(spec: Any) -> RequestSpec:
    arguments = validate(SELECT, {"request_spec": spec, "instance_uuids": [uid(1)]})
    assert isinstance(arguments, SelectDestinations)
    return arguments.request_spec


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for step, inner in items:
        yield (*path, step)
        yield from _paths(inner, (*path, step))


def _with(path: tuple[str | int, ...], value: Any) -> Any:
    document: Any = copy.deepcopy(WHOLE)
    at = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return document


def _refused(spec: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as caught:
        _accept(spec)
    assert caught.value.kwargs["method"] == "select_destinations"
    return [(error["path"], error["message"]) for error in caught.value.kwargs["errors"]]


def test_the_example_has_every_field():
    accepted = _accept(WHOLE)
    root = schemas.arguments(SELECT)
    missing = []

    def look(schema: Any, value: Any, path: str) -> None:
        for one in (resolve(each, root) for each in schema.get("anyOf", [schema])):
            for name, inner in one.get("properties", {}).items():
                if name not in value:
                    missing.append(f"{path}.{name}")
                else:
                    look(inner, value[name], f"{path}.{name}")
            if "items" in one and isinstance(value, list):
                look(one["items"], value[0], f"{path}[0]")

    look(resolve(root, root)["properties"]["request_spec"], WHOLE, "$")
    assert missing == []
    assert accepted.instance_group.rules.max_server_per_host == 2


@pytest.mark.parametrize("path", list(_paths(WHOLE)), ids=jsonpath)
def test_a_wrong_value_is_refused_by_its_path(path):
    errors = _refused(_with(path, WRONG))
    assert {where for where, _ in errors} == {jsonpath(("request_spec", *path))} or {
        where.removesuffix("[0]") for where, _ in errors
    } == {jsonpath(("request_spec", *path))}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("flavor", "vcpus"), 0, "must be at least 1"),
        (("flavor", "memory_mb"), 2**31, "must be at most 2147483647"),
        (("flavor", "root_gb"), -1, "must be at least 0"),
        (("image", "min_ram"), 1.0, "must be an integer, not a number"),
        (("purpose",), "rebuild", "must be one of"),
        (("requested_resources", 0, "requester_id"), "a b", "letters, digits, underscores"),
        (("requested_resources", 0, "requester_id"), "a\n", "letters, digits, underscores"),
        (("required_traits", 0), "hw-avx", "upper-case letters"),
        (("requested_destination", "aggregates", 0), f"{uid(2)}, {uid(3)}", "uuids joined by"),
        (("requested_destination", "aggregates", 0), f"{uid(2)}\n", "uuids joined by"),
        (("requested_destination", "forbidden_aggregates", 0), "x", "must be a uuid"),
        (("instance_group", "policy"), "legacy", "must be one of"),
        (("instance_group", "rules", "max_server_per_host"), 0, "must be at least 1"),
        (("limits", "numa_topology", "cpu_allocation_ratio"), 0, "must be more than 0"),
        (("project_id",), "x" * 256, "must have at most 255 characters"),
        (("user_id",), "a\0b", "text that can be stored"),
    ],
)
def test_bounds_are_checked(path, value, message):
    (error,) = _refused(_with(path, value))
    assert error[0] == jsonpath(("request_spec", *path))
    assert message in error[1]


@pytest.mark.parametrize(
    ("path", "name"), [((), "retry"), (("flavor",), "disk"), (("instance_group",), "policies")]
)
def test_an_unknown_field_is_refused(path, name):
    (error,) = _refused(_with((*path, name), 1))
    assert error == (jsonpath(("request_spec", *path, name)), "is not a field here")


def test_every_mistake_is_named():
    spec = {**WHOLE, "is_bfv": 0, "purpose": "rebuild"}
    assert {path for path, _ in _refused(spec)} == {
        "$.request_spec.is_bfv",
        "$.request_spec.purpose",
    }


def test_only_a_flavor_is_required():
    assert _accept({"flavor": {"vcpus": 1, "memory_mb": 1}}).purpose == "build"
    assert _refused({}) == [("$.request_spec.flavor", "is required")]


@pytest.mark.parametrize(
    "hints", [None, {}, {"same_host": None}, {"same_host": []}, {"same_host": ""}]
)
def test_a_hint_without_a_value_is_no_hint(hints):
    spec = _accept({**WHOLE, "scheduler_hints": hints})
    assert spec.hint("same_host") == ()


def test_a_hint_has_one_or_more_values():
    hints = {"one": "a", "two": ["a", "", "b"]}
    spec = _accept({**WHOLE, "scheduler_hints": hints})
    assert spec.hint("one") == ("a",)
    assert spec.hint("two") == ("a", "b")
