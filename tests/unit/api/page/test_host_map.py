"""The host map's HTML: every state of a CPU, a device and an owner."""

import json

import pytest
from immutables import Map
from lxml import html
from msgspec.structs import replace

from rtagent.api.page.host_map import WORDS, Unit
from rtagent.api.page.routes import PageCache
from rtagent.api.page.sources import PageSources
from rtagent.api.pci import DeviceView, Resource
from rtagent.api.routes import answer
from rtagent.model.device import PciDevices
from tests.support.api_states import check_map, empty, moved, page, populated, sources, uuid
from tests.support.owned_hosts import devices_in_every_state, pinned_host
from tests.support.pci_hosts import PF_0, gpu, nic, record, vf


def text(element):
    return " ".join(" ".join(element.itertext()).split())


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


def test_every_use_of_a_cpu_has_its_own_style_and_words():
    tree = page(pinned_host())
    legend = [text(each) for each in tree.xpath("//*[@class='panel legend']//li")]
    assert all(map(str.endswith, legend, WORDS.values()))
    styles = {each.get("class").split()[1] for each in tree.xpath("//a[contains(@class, 'cpu ')]")}
    assert styles == set(WORDS)


def test_drift_and_foreign_domains_are_flagged():
    tree = page(populated())
    drifting, building, orphan = map(text, tree.xpath("//tr[@data-uuid]"))
    assert "drift" in drifting
    assert "drift" not in building
    assert "no claim" in orphan
    assert "1 domain without a claim" in text(tree.xpath("//*[@class='counts']")[0])


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


def test_devices_are_grouped_by_root_port():
    # two GPUs behind a switch, a card, and a GPU of the root complex
    first, second, direct = "0000:0a:00.0", "0000:0b:00.0", "0000:00:02.0"
    shown = [gpu(first), gpu(second), gpu(direct), *nic(vfs=2)]
    state = replace(empty(), devices=PciDevices(record(shown)))
    known = Map({first: "0000:00:1c.0", second: "0000:00:1c.0", PF_0: "0000:00:1d.0"})
    agent = replace(sources(state), more=PageSources(root_ports=lambda: known))
    assert ports(html.fromstring(answer(agent, "/").body.decode())) == [
        (None, {"0000:00": [direct]}),
        ("Root port 0000:00:1c.0", {"0000:0a": [first], "0000:0b": [second]}),
        ("Root port 0000:00:1d.0", {"0000:20": [PF_0, vf(0), vf(1)]}),
    ]
    assert ports(page(state)) == [
        (None, {"0000:00": [direct]}),
        (None, {"0000:0a": [first]}),
        (None, {"0000:0b": [second]}),
        (None, {"0000:20": [PF_0, vf(0), vf(1)]}),
    ]


def test_a_card_is_behind_the_root_port_of_its_functions():
    _, *functions = nic(vfs=2)
    state = replace(empty(), devices=PciDevices(record(functions)))
    known = Map({vf(0): "0000:00:1d.0"})
    agent = replace(sources(state), more=PageSources(root_ports=lambda: known))
    tree = html.fromstring(answer(agent, "/").body.decode())
    assert ports(tree) == [("Root port 0000:00:1d.0", {"0000:20": [vf(0), vf(1)]})]
    assert "not assignable itself" in text(tree)


def test_the_map_follows_root_ports_that_the_state_does_not_have():
    state = replace(empty(), devices=PciDevices(record([gpu()])))
    known = [Map(), Map({gpu().address: "0000:00:01.0"})]
    more = PageSources(root_ports=lambda: known[0])
    agent = replace(sources(state), pages=PageCache(lambda: 0.0), more=more)
    assert b"Root port" not in answer(agent, "/").body
    assert json.loads(answer(agent, "/pci").body)["pci"][0]["root_port"] is None
    known.pop(0)
    assert b"Root port" in answer(agent, "/").body
    (found,) = json.loads(answer(agent, "/pci").body)["pci"]
    assert found["root_port"] == "0000:00:01.0"


def test_a_label_says_what_a_unit_is_and_what_is_wrong_with_it():
    device = DeviceView(
        node="hv1",
        address="0000:20:02.0",
        vendor_id="8086",
        product_id="154c",
        dev_type="type-VF",
        numa_node=0,
        parent_addr=None,
        iommu_group=7,
        net_name="ens1",
        resource_class="CUSTOM_VF",
        tags={},
        status="unavailable",
        reason="it vanished",
        others=(uuid(1),),
    )
    assert Unit(key="a", document=device, owner=None).label == (
        f"02.0: unavailable (it vanished); also used by {uuid(1)};"
        " type-VF 0000:20:02.0, 8086:154c ens1, IOMMU group 7"
    )
    resource = Resource(
        node="hv1",
        provider=uuid(2),
        parent_addr="0000:41:00.0",
        resource_class="VGPU",
        identifier="nvidia-35/3",
        mdev_uuid=None,
        status="claimed",
        owner_id=None,
        name=None,
        claim_uuid=None,
        present=False,
    )
    assert Unit(key="b", document=resource, owner=None).label == (
        "3: claimed (gone from the host); VGPU nvidia-35/3 of 0000:41:00.0"
    )


def test_the_label_of_a_cpu_says_who_has_it_and_who_uses_it_besides():
    labels = page(pinned_host()).xpath("//a[starts-with(@id, 'cpu-')]/@aria-label")
    [label] = [label for label in labels if label.startswith("CPU 3 ")]
    assert label.partition("; also used by ")[0] == "CPU 3 A: web-1, pinned"
    assert label.endswith("0000000c")
