"""The map of a host, in a terminal and in a file."""

import io
import json

import msgspec
import pytest
from rich.console import Console

from rtagent.api import numa
from rtagent.cmd.numa import draw
from tests.support.owned_hosts import FOREIGN_DOMAIN, IDLE, WEB, pinned_host


def drawn(state, terminal=False, width=100) -> str:
    document = json.loads(msgspec.json.encode(numa.document(state)))
    file = io.StringIO()
    draw(document, Console(file=file, width=width, highlight=False, force_terminal=terminal))
    return file.getvalue()


def test_the_map_shows_every_cpu_with_its_owner_next_to_its_siblings():
    lines = drawn(pinned_host())
    for core in (
        "[  0 shared  |  1 shared  ]",
        "[  2 web-1   |  3 web-1!  ]",
        f"[  4 {IDLE[:8]} |  5 kept ]",
        "[ 14 host",
        "[ 15 offline",
    ):
        assert " ".join(core.split()) in " ".join(lines.split())
    assert lines.splitlines()[-4:] == [
        f"claimed 2-3: instance web-1 ({WEB})",
        f"claimed 4: instance ({IDLE})",
        f"kept 5: instance ({IDLE})",
        f"foreign 9: domain odd ({FOREIGN_DOMAIN})",
    ]


def test_only_a_terminal_gets_colours_and_block_characters():
    plain, coloured = drawn(pinned_host()), drawn(pinned_host(), terminal=True)
    assert plain.isascii()
    assert "\x1b[" in coloured and "█" in coloured


def test_lines_of_cores_fit_into_the_width():
    cores = [line for line in drawn(pinned_host(), width=40).splitlines() if line.startswith("  [")]
    assert len(cores) > 4 and max(map(len, cores)) <= 40


@pytest.mark.parametrize("width", [60, 80])
def test_the_pages_of_a_size_have_one_line(width):
    pools = [line for line in drawn(pinned_host(), width=width).splitlines() if " pages " in line]
    assert pools and all(line.rstrip().endswith("in all") for line in pools)
