"""Documents become values, or are refused."""

import pytest

from rtagent.errors import InvalidRequest
from rtagent.model.request import Limits
from rtagent.rpc.methods import METHODS, InstanceClaim
from rtagent.rpc.validation import Validator, digest
from tests.builders import uid
from tests.rpc_agents import build

METHOD = METHODS["instance_claim"]
validate = Validator(METHOD)


def test_a_document_becomes_values():
    document = build(vcpus=3, limits={"vcpu": 5}, node="n")
    arguments = validate(document)
    assert isinstance(arguments, InstanceClaim)
    assert arguments.instance.flavor.vcpus == 3
    assert arguments.limits == Limits(vcpu=5)
    assert arguments.operation_id == document["operation_id"]


def test_null_is_absence_for_every_optional_argument():
    document = build()
    nulls = dict.fromkeys(("node", "limits", "allocations", "tag", "extra_resource"))
    assert validate({**document, **nulls}) == validate(document)
    assert digest(METHOD, {**document, **nulls}) == digest(METHOD, document)


def test_a_document_is_not_written_to():
    document = build()
    before = repr(document)
    validate(document)
    assert repr(document) == before


def test_a_refusal_names_method_and_paths():
    with pytest.raises(InvalidRequest) as refused:
        validate({**build(vcpus=-1), "tag": 7})
    assert refused.value.kwargs == {
        "method": "instance_claim",
        "errors": [
            {"path": "$.instance.flavor.vcpus", "message": "must be at least 1"},
            {"path": "$.tag", "message": "must be a string or null, not an integer"},
        ],
    }


def test_the_digest_is_of_method_and_content():
    document = build(tag="a")
    reordered = dict(reversed(document.items()))
    assert digest(METHOD, reordered) == digest(METHOD, document)
    assert digest(METHOD, {**document, "tag": "b"}) != digest(METHOD, document)
    change = {"operation_id": uid(), "claim_uuid": uid()}
    assert digest(METHODS["renew_claim"], change) != digest(METHODS["activate_claim"], change)
