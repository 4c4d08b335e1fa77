"""Many viewers of the pages, and a health probe. The server has few threads and connections."""

import http.client
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

from tests.functional.page.page_hosts import LARGE, PageHost, crowd

VIEWERS = 100
PROBES = 50


class Viewer:
    """Polls as the script of the pages does: each second, and only for what it does not have."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.statuses: list[int] = []
        self.tag = ""

    def watch(self, ended: threading.Event) -> None:
        while True:
            with suppress(ConnectionError):  # closed in favour of another one: it polls again
                self._poll()
            if ended.wait(1) and len(self.statuses) >= 2:
                return

    def _poll(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=300)
        with closing(connection):
            connection.request("GET", "/", headers={"If-None-Match": self.tag})
            reply = connection.getresponse()
            reply.read()
            self.statuses.append(reply.status)
            self.tag = reply.getheader("ETag", "")


def probe(address: str) -> None:
    """Ask for the health until there is a reply."""
    while True:
        connection = http.client.HTTPConnection(address, timeout=300)
        with closing(connection), suppress(ConnectionError):
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200
            return


def change(host: PageHost, ended: threading.Event) -> None:
    while not ended.wait(0.2):
        host.release(host.claim("changes", 1, 16))


def test_viewers_do_not_starve_a_health_probe(tmp_path, long):
    with PageHost(tmp_path, LARGE) as host:
        crowd(host, 1000 if long else 300)
        address, ended = str(host.address), threading.Event()
        viewers = [Viewer(address) for _ in range(VIEWERS)]
        with ThreadPoolExecutor(VIEWERS + 1) as pool:
            running = [pool.submit(change, host, ended)]
            running += [pool.submit(viewer.watch, ended) for viewer in viewers]
            try:
                for _ in range(PROBES):
                    probe(address)
                    time.sleep(0.02)
            finally:  # otherwise a failure would leave the threads running
                ended.set()
        for each in running:
            each.result()

    for viewer in viewers:
        assert set(viewer.statuses) <= {200, 304}
        assert viewer.statuses[0] == 200
