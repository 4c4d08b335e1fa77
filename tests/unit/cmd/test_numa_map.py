"""The map, as a terminal and as a file get it."""

import io
import json

import msgspec
from msgspec.structs import replace
from rich.console import Console

from rtagent.api import numa
from rtagent.cmd.numa_map import draw
from tests.builders import TOPOLOGY, host
from tests.unit.api.placed import IDLE, STRANGER, WEB, mapped


def drawn(state, terminal=False, width=100) -> str:
    document = json.loads(msgspec.json.encode(numa.host(state)))
    file = io.StringIO()
    draw(document, Console(file=file, width=width, highlight=False, force_terminal=terminal))
    return file.getvalue()


def test_every_cpu_is_on_it_with_its_owner_and_its_siblings():
    told = drawn(mapped())
    for core in (
        "[  0 shared  |  1 shared  ]",
        "[  2 web-1   |  3 web-1!  ]",
        f"[  4 {IDLE[:8]} |  5 kept ]",
        "[ 14 host",
        "[ 15 offline",
    ):
        assert " ".join(core.split()) in " ".join(told.split())


def test_pools_are_bars_of_what_is_used_reserved_and_free():
    (large,) = (line for line in drawn(mapped()).splitlines() if "2MiB" in line)
    assert large.split() == [
        *("2MiB", "pages", f"{'#' * 15}{'=' * 4}{'.' * 11}"),
        *("256", "used,", "64", "reserved,", "512", "in", "all"),
    ]


def test_owners_are_listed_in_full():
    told = drawn(mapped()).splitlines()
    assert told[-4:] == [
        f"claimed 2-3: instance web-1 ({WEB})",
        f"claimed 4: instance ({IDLE})",
        f"kept 5: instance ({IDLE})",
        f"foreign 9: domain odd ({STRANGER})",
    ]


def test_only_a_terminal_gets_colours_and_blocks():
    plain, coloured = drawn(mapped()), drawn(mapped(), terminal=True)
    assert plain.isascii()
    assert "\x1b[" in coloured and "█" in coloured


def test_lines_keep_to_the_width():
    cores = [line for line in drawn(mapped(), width=40).splitlines() if line.startswith("  [")]
    assert len(cores) > 4 and max(map(len, cores)) <= 40


def test_a_host_without_cells_says_so():
    assert (
        drawn(host(replace(TOPOLOGY, cells=())))
        == "cn1.example\nThe hypervisor tells of no NUMA cells.\n"
    )
