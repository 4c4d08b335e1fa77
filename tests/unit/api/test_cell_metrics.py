"""The metrics of NUMA cells."""

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from rtagent.api.metrics import cells
from rtagent.model.change import Change
from rtagent.model.policy import NumaPolicy
from tests.support.claims import pinned_claim
from tests.support.hosts import NOON, host
from tests.support.numa_hosts import ONE_CELL, PAGES

SETS = NumaPolicy(
    cpu_shared_set=frozenset(range(8, 16)),
    cpu_dedicated_set=frozenset(range(8)),
    reserved_huge_pages={0: {2048: 16}},
)


class Cells(Collector):
    def __init__(self, state):
        self._state = state

    def collect(self):
        return cells(self._state)


def values(state):
    registry = CollectorRegistry()
    registry.register(Cells(state))
    lines = generate_latest(registry).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name.removeprefix("rtagent_cell_"): float(value) for name, _, value in pairs}


def test_cells_have_their_cpus_memory_and_pages():
    claim = pinned_claim(1, 6, kept=(5,), memory_mb=64, pagesize=2048)
    state = host(PAGES, numa=SETS).fold(Change(cause="x", at=NOON, puts=(claim,)))
    shown = values(state)
    assert (shown['cpus_dedicated{cell="0"}'], shown['cpus_shared{cell="0"}']) == (8, 0)
    assert (shown['cpus_dedicated{cell="1"}'], shown['cpus_shared{cell="1"}']) == (0, 8)
    assert shown['cpus_pinned{cell="0"}'] == 3
    assert (shown['memory_mb{cell="0"}'], shown['memory_used_mb{cell="0"}']) == (8192, 64)
    pages = {
        size: tuple(
            shown[f'{name}{{cell="0",size_kb="{size}"}}']
            for name in ("pages", "pages_used", "pages_reserved")
        )
        for size in (4, 2048, 1048576)
    }
    assert pages == {4: (5 * 2**18, 0, 0), 2048: (512, 32, 16), 1048576: (2, 0, 0)}
    assert shown['vcpus_used{cell="1"}'] == 0


def test_host_without_cells_has_none():
    assert values(host(replace(ONE_CELL, cells=()))) == {}
