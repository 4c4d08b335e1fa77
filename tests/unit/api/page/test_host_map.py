"""The host map's HTML: every state of a CPU, a device and an owner."""

import pytest
from immutables import Map
from lxml import html
from msgspec.structs import replace

from rtagent.api.page.host_pages import PageSources
from rtagent.api.page.routes import PageCache
from rtagent.api.routes import answer
from rtagent.model.device import PciDevices
from tests.support.api_states import check_map, empty, moved, page, populated, sources, text
from tests.support.owned_hosts import (
    FOREIGN_DOMAIN,
    GROUP_GPU,
    WEB,
    devices_in_every_state,
    pinned_host,
)
from tests.support.pci_hosts import GPU_0, gpu, nic, record, vf


@pytest.mark.parametrize(
    "state",
    [
        populated(),
        empty(),
        replace(empty(), topology=None),
        pinned_host(),
        replace(pinned_host(), topology=None),
        devices_in_every_state(),
        moved().state,
    ],
    ids=["populated", "empty", "unobserved", "pinned", "claims-unobserved", "devices", "moves"],
)
def test_the_map_shows_what_the_documents_show(state):
    check_map(state)


def ports(tree):
    """Each root port of the map, or None, with the devices on each bus behind it."""
    return [
        (
            next(map(text, port.xpath("p[@class='port-name']")), None),
            {
                text(bus.xpath("span")[0]): [
                    each.get("id").removeprefix("dev-")
                    for each in bus.xpath(".//a[contains(@class, 'unit ')]")
                ]
                for bus in port.xpath("ul/li[@class='bus']")
            },
        )
        for port in tree.xpath("//*[@class='tree']/ul/li")
    ]


def test_devices_are_grouped_by_root_port_once_these_are_known():
    # two GPUs behind a switch, a GPU of the root complex, and a card that is not assignable itself
    first, second, direct = "0000:0a:00.0", "0000:0b:00.0", "0000:00:02.0"
    _, *functions = nic(vfs=2)
    shown = [gpu(first), gpu(second), gpu(direct), *functions]
    state, known = replace(empty(), devices=PciDevices(record(shown))), [Map()]
    agent = replace(
        sources(state), pages=PageCache(lambda: 0.0), more=PageSources(root_ports=lambda: known[-1])
    )
    before = ports(html.fromstring(answer(agent, "/").body.decode()))
    assert [port for port, _ in before] == [None] * 4
    known.append({first: "0000:00:1c.0", second: "0000:00:1c.0", vf(0): "0000:00:1d.0"})
    tree = html.fromstring(answer(agent, "/").body.decode())
    assert ports(tree) == [
        (None, {"0000:00": [direct]}),
        ("Root port 0000:00:1c.0", {"0000:0a": [first], "0000:0b": [second]}),
        ("Root port 0000:00:1d.0", {"0000:20": [vf(0), vf(1)]}),
    ]
    assert "not assignable itself" in text(tree)


DEVICES = devices_in_every_state()
WHY = f"{GPU_0} of its IOMMU group 7 is held by {WEB}"
WHAT = f"type-PCI {GROUP_GPU}, 10de:13f1, IOMMU group 7"
NAMESPACE = "CUSTOM_PMEM_NAMESPACE_4GB ns_9"


@pytest.mark.parametrize(
    ("state", "key", "label"),
    [
        (pinned_host(), "cpu-3", f"CPU 3 A: web-1, pinned; also used by {FOREIGN_DOMAIN}"),
        (DEVICES, f"dev-{GROUP_GPU}", f"00.0: unavailable ({WHY}); {WHAT}"),
        (DEVICES, "res-0", "0 A: web-1, allocated; VGPU 0000:0a:00.0/nvidia-11/0 of 0000:0a:00.0"),
        (DEVICES, "res-4", f"ns_9 A: web-1, allocated (gone from the host); {NAMESPACE}"),
    ],
    ids=["pinned", "group", "mediated", "gone"],
)
def test_a_label_says_what_a_unit_is_who_has_it_and_what_is_wrong_with_it(state, key, label):
    assert page(state).xpath("//*[@id=$key]/@aria-label", key=key) == [label]
