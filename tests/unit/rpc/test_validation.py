"""Documents are accepted or refused, and identified by their digest."""

import pytest

from rtagent.errors import InvalidRequest
from rtagent.rpc.methods import METHODS
from rtagent.rpc.schemas import digest, validate
from tests.support.hosts import uid
from tests.support.rpc import build

METHOD = METHODS["instance_claim"]


def test_an_optional_argument_that_is_null_counts_as_absent():
    document = build()
    nulls = dict.fromkeys(("node", "limits", "allocations", "tag", "extra_resource"))
    assert validate(METHOD, {**document, **nulls}) == validate(METHOD, document)
    assert digest(METHOD.name, {**document, **nulls}) == digest(METHOD.name, document)


def test_a_refusal_names_method_and_paths():
    with pytest.raises(InvalidRequest) as refused:
        validate(METHOD, {**build(vcpus=-1), "tag": 7})
    assert refused.value.kwargs == {
        "method": "instance_claim",
        "errors": [
            {"path": "$.instance.flavor.vcpus", "message": "must be at least 1"},
            {"path": "$.tag", "message": "must be a string or null, not an integer"},
        ],
    }


def test_the_digest_depends_on_method_and_content_only():
    document = build(tag="a")
    reordered = dict(reversed(document.items()))
    assert digest(METHOD.name, reordered) == digest(METHOD.name, document)
    assert digest(METHOD.name, {**document, "tag": "b"}) != digest(METHOD.name, document)
    assert digest(METHOD.name, {**document, "node_uuid": uid()}) == digest(METHOD.name, document)
    change = {"operation_id": uid(), "claim_uuid": uid()}
    assert digest("renew_claim", change) != digest("activate_claim", change)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("$.instance.flavor.vcpus", {"instance": {"flavor": {"vcpus": 1.0}}}),
        ("$.instance.flavor.vcpus", {"instance": {"flavor": {"vcpus": True}}}),
        ("$.instance.flavor.vcpus", {"instance": {"flavor": {"vcpus": "1"}}}),
        ("$.instance.flavor.vcpus", {"instance": {"flavor": {"vcpus": 10**400}}}),
        ("$.limits.numa_topology.cpu_allocation_ratio", {"limits": {"numa_topology": {
            "cpu_allocation_ratio": float("nan")}}}),
        ("$.limits.numa_topology.cpu_allocation_ratio", {"limits": {"numa_topology": {
            "cpu_allocation_ratio": 10**400}}}),
        ('$["\\ud800"]', {"\ud800": 1}),
        ("$.tag", {"tag": "\ud800"}),
    ],
)  # fmt: skip
def test_msgspec_is_as_strict_as_the_schema(path: str, change: dict):
    document = build()
    flavor = document["instance"]["flavor"] | change.pop("instance", {}).pop("flavor", {})
    document["instance"]["flavor"] = flavor
    with pytest.raises(InvalidRequest) as refused:
        validate(METHOD, {**document, **change})
    assert [error["path"] for error in refused.value.kwargs["errors"]] == [path]
