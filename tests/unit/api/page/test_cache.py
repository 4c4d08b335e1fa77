"""The cache of rendered pages."""

import threading
from concurrent.futures import ThreadPoolExecutor

from rtagent.api.page.routes import LONGEST_PAUSE, PAUSE, SIZE, PageCache
from rtagent.api.reply import Reply


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


def test_a_version_is_rendered_once():
    render = Renderer()
    cache = PageCache(render.clock)
    assert [cache.reply("/", 1, render).body for _ in range(3)] == [b"1"] * 3
    assert cache.reply("/", 2, render).body == b"2"
    assert cache.reply("/page/claims", 2, render).body == b"3"
    assert cache.reply("/", 2, render).body == b"2"


def test_a_page_that_changes_all_the_time_uses_a_fifth_of_a_cpu():
    render = Renderer(seconds=0.1)
    cache = PageCache(render.clock)
    cache.reply("/", 1, render)
    render.now += 0.1 * PAUSE - 0.01
    assert cache.reply("/", 2, render).body == b"1"
    render.now += 0.02
    assert cache.reply("/", 2, render).body == b"2"


def test_a_slow_page_is_rendered_again_after_half_a_second():
    render = Renderer(seconds=10)
    cache = PageCache(render.clock)
    cache.reply("/", 1, render)
    render.now += LONGEST_PAUSE
    assert cache.reply("/", 2, render).body == b"2"


def test_the_number_of_pages_is_bounded():
    render = Renderer()
    cache = PageCache(render.clock)
    for number in range(SIZE + 1):
        cache.reply(f"/page/claims?instance={number}", 1, render)
    cache.reply(f"/page/claims?instance={SIZE}", 1, render)
    assert render.count == SIZE + 1
    cache.reply("/page/claims?instance=0", 1, render)
    assert render.count == SIZE + 2


def test_viewers_at_the_same_time_share_one_rendering():
    render, together = Renderer(), threading.Barrier(8)
    cache = PageCache()

    def view(_: int) -> bytes:
        together.wait()
        return cache.reply("/", 1, render).body

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(view, range(8))) == {b"1"}
