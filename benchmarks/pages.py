"""The host map of a large host: rendered again after each change."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

from msgspec.structs import replace
from selenium.webdriver.remote.webdriver import WebDriver

from benchmarks.bench import Bench
from benchmarks.figure import Figure
from rtagent.api.page.routes import PageCache
from rtagent.api.routes import answer
from tests.functional.page.page_hosts import LARGE, PageHost, crowd
from tests.servers.chromium import Chromium

CLAIMS = 1000
#: The documents of which the page is made.
DOCUMENTS = ("/nodes", "/numa", "/pci", "/resources", "/claims")


def measure(bench: Bench) -> Iterator[Figure]:
    """page_documents: CPU time of rendering the host map of 512 CPUs, 256 devices and 1,000 claims
    after a claim has changed. page_documents_json: the same against the time that Python's json
    needs to write the documents that it shows. page_first: CPU time of the first one after a
    start, against that JSON. page_read: CPU time of those documents, as the read API makes them."""
    with PageHost(bench.directory(), LARGE) as host:
        crowd(host, CLAIMS)
        assert _sizes(host) == (512, 256, CLAIMS)
        gc.freeze()  # as a daemon that runs for long
        rounds = bench.rounds(50)
        answer(host.sources, "/")
        changed, read = [], []
        for _ in range(rounds):
            host.release(host.claim("changes", 1, 16))
            pages = replace(host.sources, pages=_forgotten(host.sources.pages))
            changed.append(_ms(partial(answer, pages, "/")))
            read.append(_ms(lambda: [answer(host.sources, path) for path in DOCUMENTS]))
        shown = [host.document(path) for path in DOCUMENTS]
        json_ms = median(_ms(partial(json.dumps, shown)) for _ in range(rounds))
        first = median(
            _ms(lambda: answer(replace(host.sources, pages=PageCache()), "/"))
            for _ in range(rounds)
        )
        gc.unfreeze()
    value = median(changed)
    yield Figure(name="page_documents", value=value, unit="ms", target=50)
    yield Figure(name="page_documents_json", value=value, unit="ms", floor=json_ms, target=2.5)
    yield Figure(name="page_first", value=first, unit="ms", floor=json_ms, target=4)
    yield Figure(name="page_read", value=median(read), unit="ms", target=50)


def _sizes(host: PageHost) -> tuple[int, int, int]:
    """The CPUs, the PCI devices and the claims of a host."""
    [node] = host.document("/numa")["numa"]
    cpus = sum(len(core) for cell in node["cells"] for core in cell["cores"])
    return cpus, len(host.document("/pci")["pci"]), len(host.document("/claims")["claims"])


def shown(bench: Bench) -> Iterator[Figure]:
    """page_shown: time until headless Chromium has loaded that host map and painted it."""
    chromium = bench.keep(Chromium())
    with PageHost(bench.directory(), LARGE) as host:
        crowd(host, CLAIMS)
        driver = chromium.browser()
        try:
            driver.get(host.url)
            taken = [_shown_ms(driver, host) for _ in range(bench.rounds(10))]
        finally:
            driver.quit()
    yield Figure(name="page_shown", value=median(taken), unit="ms", target=1000)


def _shown_ms(driver: WebDriver, host: PageHost) -> float:
    host.release(host.claim("changes", 1, 16))
    driver.get(host.url)
    ended: float = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "requestAnimationFrame(() => setTimeout(() => done(performance.now())));"
    )
    return ended


def _forgotten(pages: PageCache) -> PageCache:
    """A cache without pages, but with the owners and the room of that cache."""
    fresh = PageCache()
    fresh.owners, fresh.room = pages.owners, pages.room
    return fresh


def _ms(call: Callable[[], object]) -> float:
    """Return the CPU time of a call, which one thread makes."""
    began = time.thread_time()
    call()
    return (time.thread_time() - began) * 1000
