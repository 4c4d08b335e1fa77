"""The documents of a host's capacity."""

import json

import pytest
from msgspec.structs import replace

from rtagent.api.routes import answer
from rtagent.capacity.count import Counts
from rtagent.errors import NodeNotReady
from rtagent.model.device import PciDevices
from rtagent.model.node import Drain
from rtagent.model.policy import NumaPolicy, PciPolicy
from rtagent.model.request import Flavor
from tests.support.api_states import sources
from tests.support.claims import pinned_claim
from tests.support.device_states import with_builds
from tests.support.hosts import NOON, PINNED, PINNING, host, request, with_claims
from tests.support.numa_hosts import PAGES
from tests.support.pci_hosts import gpu, record
from tests.support.random_nodes import ALIASES

LARGE = Flavor(name="large", vcpus=4, memory_mb=1024, root_gb=1, extra_specs=PINNED)
HUGE = replace(LARGE, name="huge", vcpus=5)


def built(*numbers, **policy):
    flavors = [(request(n, 1024, 1, name=f"f{n}", extra_specs=PINNED)) for n in numbers]
    return with_builds(host(numa=PINNING, **policy), *flavors)


def served(state, *listed, **more):
    return replace(sources(state, **more), counts=Counts(lambda: listed))


def capacity(agent, path="/capacity"):
    (shown,) = json.loads(answer(agent, path).body)["capacity"]
    return shown


def test_each_flavor_has_its_room_and_what_is_scarce():
    shown = capacity(served(built(2), LARGE, HUGE))
    rows = {row["name"]: row for row in shown["flavors"]}
    rooms = {name: (row["room"], row["claims"]) for name, row in rows.items()}
    assert rooms == {"f2": (2, 1), "large": (0, 0), "huge": (0, 0)}
    assert rows["huge"]["never"] == "needs 5 CPUs (PCPU) in one cell, the largest has 4"
    assert rows["f2"]["scarce"]["resource"] == "PCPU"
    assert shown["blocked"] is None
    assert shown["amounts_judged"] is True


def test_a_flavor_is_shown_cell_by_cell():
    (row,) = capacity(served(built(), LARGE), "/capacity?flavor=large")["flavors"]
    assert row["places"] == [{"cells": [1], "builds": 1}]
    assert [(cell["id"], cell["pcpus"]) for cell in row["cells"]] == [(0, 2), (1, 0)]
    assert row["left"] == {"vcpus": 2, "pcpus": 2, "memory_mb": 15360, "disk_mb": 101376}
    assert row["reasons"][0] == row["scarce"]
    assert capacity(served(built(), LARGE), "/capacity?flavor=none")["flavors"] == []


@pytest.mark.parametrize(
    ("drain", "error", "why"),
    [
        (Drain(since=NOON, reason="dust"), None, "dust"),
        (None, NodeNotReady("the first audit is missing"), "first audit"),
    ],
)
def test_nothing_has_room_while_no_claim_is_granted(drain, error, why):
    agent = served(replace(built(), drain=drain), LARGE, creation_error=error)
    (row,) = capacity(agent)["flavors"]
    assert (row["room"], row["fits"]) == (0, 1)
    assert why in capacity(agent)["blocked"]
    assert metrics(agent)['rtagent_room{flavor="large"}'] == 0


def test_flavors_with_devices_have_no_room_while_devices_are_not_known():
    state = replace(
        built(), policy=replace(built().policy, pci=PciPolicy(aliases=ALIASES)),
        devices=PciDevices(record([gpu("0000:0a:00.0", 0)])),
    )  # fmt: skip
    specs = {"pci_passthrough:alias": "gpu:1"}
    with_gpu = Flavor(name="gpu", vcpus=1, memory_mb=64, extra_specs=specs)
    unlisted = NodeNotReady("the devices were not listed")
    agent = replace(served(state, with_gpu, LARGE), devices_error=lambda: unlisted)
    rows = {row["name"]: row for row in capacity(agent)["flavors"]}
    assert (rows["gpu"]["room"], rows["gpu"]["fits"]) == (0, 1)
    assert rows["gpu"]["blocked"] == "the devices were not listed"
    assert (rows["large"]["room"], rows["large"]["blocked"]) == (1, None)


def test_a_host_that_was_never_observed_has_no_numbers():
    shown = capacity(served(replace(built(), topology=None), LARGE))
    assert shown["flavors"] == []
    assert "topology" in shown["blocked"]


def metrics(agent):
    lines = answer(agent, "/metrics").body.decode().splitlines()
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if "#" not in line
    }


def test_metrics_have_the_room_of_each_flavor_and_what_is_stranded():
    found = metrics(served(built(), LARGE, HUGE))
    assert found['rtagent_room{flavor="large"}'] == 1
    assert found['rtagent_room{flavor="huge"}'] == 0
    assert found['rtagent_stranded{resource="PCPU",unit="CPUs"}'] == 2
    small = metrics(served(built(), replace(LARGE, name="small", vcpus=1)))
    assert small['rtagent_stranded{resource="PCPU",unit="CPUs"}'] == 0


def test_metrics_have_the_cpus_memory_and_pages_of_cells():
    cpus = {"cpu_shared_set": frozenset(range(8, 16)), "cpu_dedicated_set": frozenset(range(8))}
    policy = NumaPolicy(**cpus, reserved_huge_pages={0: {2048: 16}})
    claim = pinned_claim(1, 6, kept=(5,), memory_mb=64, pagesize=2048)
    found = metrics(served(with_claims(host(PAGES, numa=policy), (claim,))))

    def shown(cell, *names):
        return tuple(found[f'rtagent_cell_{name}{{cell="{cell}"}}'] for name in names)

    assert shown(0, "cpus_dedicated", "cpus_shared", "cpus_pinned") == (8, 0, 3)
    assert shown(1, "cpus_dedicated", "cpus_shared", "vcpus_used") == (0, 8, 0)
    assert shown(0, "memory_mb", "memory_used_mb") == (8192, 64)
    names = ("pages", "pages_used", "pages_reserved")
    keys = {size: f'cell="0",size_kb="{size}"' for size in (4, 2048, 1048576)}
    pages = {
        size: tuple(found[f"rtagent_cell_{name}{{{key}}}"] for name in names)
        for size, key in keys.items()
    }
    assert pages == {4: (5 * 2**18, 0, 0), 2048: (512, 32, 16), 1048576: (2, 0, 0)}
