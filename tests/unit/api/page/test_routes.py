"""The pages and assets, without a socket; the cache of rendered pages; the parts of a table."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import pytest

from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import CONTENT_SECURITY_POLICY
from rtagent.api.page.routes import LONGEST_PAUSE, PAUSE, SIZE, PageCache
from rtagent.api.reply import Reply
from rtagent.api.routes import Sources, answer
from tests.support.api_states import sources


def get(target: str, agent: Sources | None = None) -> Reply:
    return answer(agent or sources(), target)


def test_the_first_page_is_html_with_a_strict_policy_and_has_no_inline_script_or_style():
    reply = get("/")
    page = reply.body.decode()
    assert (reply.status, reply.media_type) == (HTTPStatus.OK, "text/html; charset=utf-8")
    assert reply.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "kvm-7.example" in page
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=", page)


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


def test_a_stale_state_is_announced():
    assert "out of date" in get("/", sources(stale=True)).body.decode()
    assert "out of date" not in get("/").body.decode()


def test_a_part_of_a_table_has_its_rows_and_links_to_its_neighbours():
    rows = list(range(25))
    queries = ({}, {"from": "20"}, {"from": "900"})
    parts = (PageQuery("/page", query, {"from"}).part(rows, 10) for query in queries)
    first, last, beyond = parts
    assert (first["rows"], first["before"], first["after"]) == (rows[:10], "", "/page?from=10")
    assert (last["rows"], last["before"], last["after"]) == (rows[20:], "/page?from=10", "")
    assert (last["start"], last["found"]) == (20, 25)
    assert beyond == last


class Renderer:
    """Renders pages; each rendering takes some seconds of the clock."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.now, self.count, self._seconds = 100.0, 0, seconds

    def clock(self) -> float:
        return self.now

    def __call__(self) -> Reply:
        self.count += 1
        self.now += self._seconds
        return Reply(body=str(self.count).encode())


def test_the_newest_pages_are_rendered_once_for_each_version():
    render = Renderer()
    cache = PageCache(render.clock)
    for number in range(SIZE + 1):
        cache.reply(f"/page/claims?instance={number}", 1, render)
    newest = f"/page/claims?instance={SIZE}"
    assert cache.reply(newest, 1, render).body == b"%d" % (SIZE + 1)
    assert cache.reply(newest, 2, render).body == b"%d" % (SIZE + 2)
    assert cache.reply("/page/claims?instance=0", 1, render).body == b"%d" % (SIZE + 3)


@pytest.mark.parametrize(("seconds", "pause"), [(0.1, 0.1 * PAUSE), (10, LONGEST_PAUSE)])
def test_a_page_that_changes_all_the_time_is_not_rendered_all_the_time(seconds, pause):
    render = Renderer(seconds)
    cache = PageCache(render.clock)
    cache.reply("/", 1, render)
    render.now += pause - 0.01
    assert cache.reply("/", 2, render).body == b"1"
    render.now += 0.02
    assert cache.reply("/", 2, render).body == b"2"


def test_viewers_at_the_same_time_share_one_rendering():
    render, together = Renderer(), threading.Barrier(8)
    cache = PageCache()

    def view(_: int) -> bytes:
        together.wait()
        return cache.reply("/", 1, render).body

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(view, range(8))) == {b"1"}
