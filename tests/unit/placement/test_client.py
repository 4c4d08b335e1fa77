"""Responses of Placement and their errors. The session is real; its transport is scripted."""

import io
import json
from collections.abc import Callable

import pytest
import requests
from keystoneauth1 import adapter, session, token_endpoint
from oslo_config import cfg
from oslo_context import context

from rtagent.conf import placement
from rtagent.errors import ConfigError, PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.placement.client import MICROVERSION, HttpPlacement
from rtagent.placement.loading import load
from tests.support.hosts import uid

RP = uid(1)


class ScriptedTransport(requests.adapters.BaseAdapter):
    """A transport that records the requests and returns a prepared response."""

    def __init__(self):
        super().__init__()
        self.requests: list[requests.PreparedRequest] = []
        self.response: Callable[[], tuple[int, object]] = lambda: (200, {})

    def send(self, request, stream=False, timeout=None, verify=True, cert=None, proxies=None):
        self.requests.append(request)
        status, body = self.response()
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
    return ScriptedTransport()


@pytest.fixture
def client(script):
    plain = requests.Session()
    plain.mount("http://", script)
    auth = token_endpoint.Token("http://placement", "t")
    keystone = session.Session(auth=auth, session=plain)
    return HttpPlacement(adapter.Adapter(keystone, service_type="placement"))


def refusal(status, code=None, detail="it\nis so"):
    return lambda: (status, {"errors": [{"status": status, "detail": detail, "code": code}]})


def call(client):
    return client.put_traits(RP, 3, ["A"])


def test_requests_carry_the_fixed_microversion(client, script):
    script.response = lambda: (200, {"traits": [], "resource_provider_generation": 4})
    assert call(client) == 4
    (request,) = script.requests
    assert request.headers["OpenStack-API-Version"] == f"placement {MICROVERSION}"
    assert (request.method, request.path_url) == ("PUT", f"/resource_providers/{RP}/traits")
    assert json.loads(request.body) == {"resource_provider_generation": 3, "traits": ["A"]}


def test_requests_carry_the_global_request_id_of_the_thread(client, script):
    script.response = lambda: (200, {"traits": [], "resource_provider_generation": 4})
    context.RequestContext(global_request_id=f"req-{uid(7)}")
    call(client)
    own = context.RequestContext()
    call(client)
    ids = [request.headers["X-Openstack-Request-Id"] for request in script.requests]
    assert ids == [f"req-{uid(7)}", own.request_id]


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (refusal(409, "placement.concurrent_update"), PlacementConflict),
        (refusal(409, "placement.undefined_code"), PlacementConflict),
        (refusal(404, "placement.undefined_code"), PlacementConflict),
        (refusal(409, "placement.inventory.inuse"), PlacementError),
        (refusal(400, "placement.undefined_code"), PlacementError),
        (refusal(403), PlacementError),
        (refusal(401), PlacementUnavailable),
        (refusal(408), PlacementUnavailable),
        (refusal(429), PlacementUnavailable),
        (refusal(500), PlacementUnavailable),
        (refusal(503), PlacementUnavailable),
    ],
)
def test_each_status_and_code_raises_its_error(client, script, response, error):
    script.response = response
    with pytest.raises(error) as caught:
        call(client)
    assert type(caught.value) is error
    assert "it is so" in caught.value.message


def test_an_error_carries_placements_code_and_detail(client, script):
    script.response = refusal(400, "placement.query.bad_value", "No such trait")
    with pytest.raises(PlacementError) as caught:
        call(client)
    assert caught.value.kwargs["code"] == "placement.query.bad_value"
    assert caught.value.kwargs["status"] == 400
    request = f"PUT /resource_providers/{RP}/traits"
    assert caught.value.message == f"{request} answered 400: No such trait"


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"errors": []}', b'{"errors": [3]}'])
def test_an_error_response_of_a_proxy_is_unavailable(client, script, body):
    script.response = lambda: (502, body)
    with pytest.raises(PlacementUnavailable, match="502: Because"):
        call(client)


@pytest.mark.parametrize(
    "write",
    [
        lambda client: client.delete_provider(RP),
        lambda client: client.ensure_classes(["CUSTOM_A"]),
        lambda client: client.ensure_traits(["CUSTOM_A"]),
        lambda client: client.put_consumer(uid(2), {}),
        lambda client: client.post_consumers({}),
        lambda client: client.reshape({}, {}),
    ],
)
def test_an_answer_of_another_server_is_not_taken_for_a_write(client, script, write):
    script.response = lambda: (200, {"traits": []})  # as of a proxy or a login page
    with pytest.raises(PlacementError, match="answered 200 to a write"):
        write(client)


@pytest.mark.parametrize(
    "failure",
    [
        requests.exceptions.ConnectionError("refused"),
        requests.exceptions.ReadTimeout("slow"),
        requests.exceptions.SSLError("certificate"),
        requests.exceptions.ChunkedEncodingError("cut"),
    ],
)
def test_a_missing_response_is_unavailable(client, script, failure):
    def response():
        raise failure

    script.response = response
    with pytest.raises(PlacementUnavailable, match="PUT /resource_providers"):
        call(client)


@pytest.mark.parametrize("body", [b"<html>Not Found</html>", {"message": "no route"}, b""])
def test_a_proxy_that_does_not_find_placement_is_no_absent_provider(client, script, body):
    """The agent would forget what it owns, and that its disk is shared."""
    script.response = lambda: (404, body)
    for request in (client.provider, client.aggregates, client.inventories, client.delete_provider):
        with pytest.raises(PlacementError, match="answered 404") as caught:
            request(RP)
        assert type(caught.value) is PlacementError


def test_creating_a_provider_at_a_wrong_address_raises(client, script):
    script.response = refusal(404)
    with pytest.raises(PlacementError, match="POST /resource_providers answered 404") as caught:
        client.create_provider(RP, "cn1")
    assert type(caught.value) is PlacementError


def test_only_missing_custom_traits_are_created(client, script):
    def respond():
        known = {"traits": ["COMPUTE_NODE", "CUSTOM_A"]}
        return (201, b"") if script.requests[-1].method == "PUT" else (200, known)

    script.response = respond
    names = ["COMPUTE_NODE", "CUSTOM_A", "CUSTOM_B", "HW_UNKNOWN"]
    assert client.ensure_traits(names) == {"COMPUTE_NODE", "CUSTOM_A", "CUSTOM_B"}
    asked = [(each.method, each.path_url.partition("?")[0]) for each in script.requests]
    assert asked == [("GET", "/traits"), ("PUT", "/traits/CUSTOM_B")]


def test_microversions_are_the_servers(client, script):
    version = {"id": "v1.0", "min_version": "1.0", "max_version": "1.39", "links": []}
    script.response = lambda: (200, {"versions": [version]})
    assert client.microversions() == ("1.0", "1.39")
    assert script.requests[0].path_url == "/"


@pytest.mark.parametrize("body", [b"<html>", b'{"versions": []}', b'{"versions": {"values": []}}'])
def test_a_server_without_placements_versions_is_an_error(client, script, body):
    script.response = lambda: (200, body)
    with pytest.raises(PlacementError):
        client.microversions()


# -- the options of [placement] -------------------------------------------------------------------


def configured(tmp_path, *options):
    path = tmp_path / "rtagent.conf"
    path.write_text("\n".join(["[placement]", *options]))
    conf = cfg.ConfigOpts()
    placement.register(conf)
    conf([], default_config_files=[str(path)])
    return conf


def test_without_auth_type_there_is_no_client(tmp_path):
    assert load(configured(tmp_path, "region_name = here")) is None


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (["auth_type = nonsense"], "auth_type"),
        (["auth_type = password", "username = u"], "auth_url"),
        (["auth_type = none", "valid_interfaces = back"], "valid_interfaces"),
    ],
)
def test_a_wrong_option_is_named(tmp_path, options, option):
    with pytest.raises(ConfigError) as caught:
        load(configured(tmp_path, *options, "endpoint = http://p"))
    assert (caught.value.kwargs["group"], caught.value.kwargs["option"]) == ("placement", option)
