"""HTTP answers, and what becomes of them. The session is real; its transport answers by script."""

import io
import json
from collections.abc import Callable

import pytest
import requests
from keystoneauth1 import adapter, session, token_endpoint
from oslo_context import context

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.placement.client import MICROVERSION, HttpPlacement
from tests.builders import uid

RP = uid(1)


class Script(requests.adapters.BaseAdapter):
    """A transport that remembers what was asked and answers what it is told to."""

    def __init__(self):
        super().__init__()
        self.asked: list[requests.PreparedRequest] = []
        self.answer: Callable[[], tuple[int, object]] = lambda: (200, {})

    def send(self, request, stream=False, timeout=None, verify=True, cert=None, proxies=None):
        self.asked.append(request)
        status, body = self.answer()
        response = requests.Response()
        response.request, response.url, response.status_code = request, request.url, status
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        response.raw = io.BytesIO(content)
        response.reason = "Because"
        return response

    def close(self):
        pass


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def client(script):
    plain = requests.Session()
    plain.mount("http://", script)
    auth = token_endpoint.Token("http://placement", "t")
    keystone = session.Session(auth=auth, session=plain)
    return HttpPlacement(adapter.Adapter(keystone, service_type="placement"))


def failing(status, code=None, detail="it\nis so"):
    return lambda: (status, {"errors": [{"status": status, "detail": detail, "code": code}]})


def call(client):
    return client.put_traits(RP, 3, ["A"])


def test_requests_have_a_pinned_microversion(client, script):
    script.answer = lambda: (200, {"traits": [], "resource_provider_generation": 4})
    assert call(client) == 4
    (asked,) = script.asked
    assert asked.headers["OpenStack-API-Version"] == f"placement {MICROVERSION}"
    assert (asked.method, asked.path_url) == ("PUT", f"/resource_providers/{RP}/traits")
    assert json.loads(asked.body) == {"resource_provider_generation": 3, "traits": ["A"]}


def test_requests_carry_the_global_request_id_of_the_thread(client, script):
    script.answer = lambda: (200, {"traits": [], "resource_provider_generation": 4})
    context.RequestContext(global_request_id=f"req-{uid(7)}")
    call(client)
    own = context.RequestContext()
    call(client)
    ids = [asked.headers["X-Openstack-Request-Id"] for asked in script.asked]
    assert ids == [f"req-{uid(7)}", own.request_id]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (failing(409, "placement.concurrent_update"), PlacementConflict),
        (failing(409, "placement.undefined_code"), PlacementConflict),
        (failing(404, "placement.undefined_code"), PlacementConflict),
        (failing(409, "placement.inventory.inuse"), PlacementError),
        (failing(400, "placement.undefined_code"), PlacementError),
        (failing(403), PlacementError),
        (failing(401), PlacementUnavailable),
        (failing(408), PlacementUnavailable),
        (failing(429), PlacementUnavailable),
        (failing(500), PlacementUnavailable),
        (failing(503), PlacementUnavailable),
    ],
)
def test_each_refusal_has_its_error(client, script, answer, error):
    script.answer = answer
    with pytest.raises(error) as caught:
        call(client)
    assert type(caught.value) is error
    assert "it is so" in caught.value.message


def test_an_error_has_placements_own_code_and_words(client, script):
    script.answer = failing(400, "placement.query.bad_value", "No such trait")
    with pytest.raises(PlacementError) as caught:
        call(client)
    assert caught.value.kwargs["code"] == "placement.query.bad_value"
    assert caught.value.kwargs["status"] == 400
    asked = f"PUT /resource_providers/{RP}/traits"
    assert caught.value.message == f"{asked} answered 400: No such trait"


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"errors": []}', b'{"errors": [3]}'])
def test_a_refusal_by_something_else_is_still_one(client, script, body):
    script.answer = lambda: (502, body)
    with pytest.raises(PlacementUnavailable, match="502: Because"):
        call(client)


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"traits": 3}'])
def test_a_success_that_is_not_placements_is_an_error(client, script, body):
    script.answer = lambda: (200, body)
    with pytest.raises(PlacementError, match="does not answer as Placement does"):
        call(client)


@pytest.mark.parametrize(
    "failure",
    [
        requests.exceptions.ConnectionError("refused"),
        requests.exceptions.ReadTimeout("slow"),
        requests.exceptions.SSLError("certificate"),
        requests.exceptions.ChunkedEncodingError("cut"),
    ],
)
def test_no_answer_is_unavailable(client, script, failure):
    def answer():
        raise failure

    script.answer = answer
    with pytest.raises(PlacementUnavailable, match="PUT /resource_providers"):
        call(client)


def test_an_absent_provider_is_none(client, script):
    script.answer = failing(404)
    assert client.provider(RP) is None


def test_an_address_that_is_not_placements_is_told_when_it_shall_create(client, script):
    script.answer = failing(404)
    with pytest.raises(PlacementError, match="POST /resource_providers answered 404") as caught:
        client.create_provider(RP, "cn1")
    assert type(caught.value) is PlacementError


def test_only_custom_traits_that_are_missing_are_made(client, script):
    script.answer = lambda: (200, {"traits": ["COMPUTE_NODE", "CUSTOM_A"]})
    names = ["COMPUTE_NODE", "CUSTOM_A", "CUSTOM_B", "HW_UNKNOWN"]
    assert client.ensure_traits(names) == {"COMPUTE_NODE", "CUSTOM_A", "CUSTOM_B"}
    assert [(asked.method, asked.path_url.partition("?")[0]) for asked in script.asked] == [
        ("GET", "/traits"),
        ("PUT", "/traits/CUSTOM_B"),
    ]
