"""The demonstration of a host plays to its end and leaves no files behind."""

import re
import urllib.request

from tests.functional.demo.playing import play


def get_page(printed: str) -> None:
    """Get the page whose address was printed."""
    (url,) = re.findall(r"hypervisor-1: (http://127\.0\.0\.1:\d+/)", printed)
    with urllib.request.urlopen(url, timeout=60) as reply:
        assert "hypervisor-1.example" in reply.read().decode()


def test_demo_succeeds(directory):
    printed, chapters = play(directory, "--serve", served=get_page)
    assert len(chapters) == 14
    assert "hypervisor-1.example" in printed
