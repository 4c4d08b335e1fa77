"""The pages and assets, without a socket."""

import re
from http import HTTPStatus

from rtagent.api.page.rendering import CONTENT_SECURITY_POLICY
from rtagent.api.reply import Reply
from rtagent.api.routes import Sources, answer
from tests.support.api_states import claimed, populated, sources


def get(target: str, agent: Sources | None = None) -> Reply:
    return answer(agent or sources(), target)


def test_the_first_page_is_html_with_a_strict_policy():
    reply = get("/")
    assert (reply.status, reply.media_type) == (HTTPStatus.OK, "text/html; charset=utf-8")
    assert reply.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "kvm-7.example" in reply.body.decode()


def test_assets_are_found_by_their_digest_and_kept():
    page = get("/").body.decode()
    urls = re.findall(r'(?:href|src)="(/page/static/[^"]+)"', page)
    assert {url.rpartition(".")[2] for url in urls} == {"css", "js", "svg"}
    for url in urls:
        reply = get(url)
        assert reply.status == HTTPStatus.OK
        assert "immutable" in reply.headers["Cache-Control"]
    assert get("/page/static/0000000000000000/page.css").status == HTTPStatus.NOT_FOUND
    assert get("/page/static/0000000000000000/../../routes.py").status == HTTPStatus.NOT_FOUND


def test_an_unknown_page_is_a_page_with_that_error():
    reply = get("/page/<script>")
    assert (reply.status, reply.media_type) == (HTTPStatus.NOT_FOUND, "text/html; charset=utf-8")
    assert "&lt;script&gt;" in reply.body.decode()
    assert "<script>" not in reply.body.decode()


def test_pages_have_neither_inline_script_nor_inline_style():
    page = get("/").body.decode()
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=", page)


def test_the_tag_changes_with_the_revision():
    state = populated()
    tags = [get("/", sources(each)).headers["ETag"] for each in (state, state, claimed(state, 3))]
    assert tags[0] == tags[1] != tags[2]


def test_a_stale_state_is_announced():
    assert "out of date" in get("/", sources(stale=True)).body.decode()
    assert "out of date" not in get("/").body.decode()
