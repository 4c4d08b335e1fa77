"""The WSGI application, called as a server calls it."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from rtagent.api.application import Application
from tests.support.api_states import sources
from tests.support.trackers import Reports


def call(environ: dict[str, Any], **changes: Any) -> tuple[str, dict[str, str], bytes, Reports]:
    log, started = Reports(), []
    application = Application(replace(sources(), **changes), log)
    body = application({"REQUEST_METHOD": "GET", **environ}, lambda *start: started.append(start))
    ((status, headers),) = started
    return status, dict(headers), b"".join(body), log


@pytest.mark.parametrize(
    "environ",
    [
        {"REQUEST_URI": "/claims?state=active", "PATH_INFO": "/other"},
        {"PATH_INFO": "/claims", "QUERY_STRING": "state=active"},
    ],
)
def test_path_and_query_select_the_view(environ):
    status, headers, body, _ = call(environ)
    assert status == "200 OK"
    assert headers["Content-Length"] == str(len(body))
    assert [each["state"] for each in json.loads(body)["claims"]] == ["active"]


def test_an_encoded_slash_is_part_of_a_name():
    _, _, body, _ = call({"REQUEST_URI": "/nodes/a%2Fb"})
    assert json.loads(body)["node"] == "a/b"


def test_head_has_the_headers_of_get_without_a_body():
    _, expected, whole, _ = call({"PATH_INFO": "/nodes"})
    status, headers, body, _ = call({"REQUEST_METHOD": "HEAD", "PATH_INFO": "/nodes"})
    assert (status, headers, body) == ("200 OK", expected, b"")
    assert headers["Content-Length"] == str(len(whole))


def test_a_request_is_logged_at_level_debug():
    *_, log = call({"REQUEST_URI": "/pci?status=x"})
    assert log.logged == [("debug", "read API: GET /pci?status=x: 400")]


def test_a_failing_view_is_logged_and_answered_with_500():
    def fail() -> bool:
        raise ZeroDivisionError("a defect")

    status, _, body, log = call({"PATH_INFO": "/nodes"}, stale=fail)
    assert status == "500 Internal Server Error"
    assert "defect" not in json.loads(body)["error"]
    assert log.logged[0] == ("error", "read API: /nodes: ZeroDivisionError('a defect')")


def test_a_page_that_the_client_has_is_not_sent_again():
    environ = {"PATH_INFO": "/"}
    status, headers, body, _ = call(environ)
    assert (status, bool(body)) == ("200 OK", True)
    status, again, body, _ = call({**environ, "HTTP_IF_NONE_MATCH": headers["ETag"]})
    assert (status, body) == ("304 Not Modified", b"")
    assert again["ETag"] == headers["ETag"]
    status, _, body, _ = call({**environ, "HTTP_IF_NONE_MATCH": '"other"'})
    assert (status, bool(body)) == ("200 OK", True)


@pytest.mark.parametrize("path", ["/", "/nodes", "/nowhere", "/page/nowhere"])
def test_every_reply_has_the_headers_of_a_careful_server(path):
    _, headers, _, _ = call({"PATH_INFO": path})
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
