"""What still fits, beside the host map, and what is stranded on it."""

from datetime import UTC, datetime

from lxml import html
from msgspec.structs import replace

from rtagent import claims
from rtagent.api.page.room import KeptRoom
from rtagent.api.page.routes import PageCache
from rtagent.api.routes import answer
from rtagent.capacity.count import Counts
from rtagent.errors import NodeNotReady
from rtagent.model.device import PciDevices
from rtagent.model.node import Drain
from rtagent.model.policy import PciPolicy
from rtagent.model.request import Flavor
from tests.support.api_states import sources
from tests.support.hosts import NOON, PINNED, PINNING, call, host, request
from tests.support.pci_hosts import gpu, record
from tests.support.random_nodes import ALIASES

#: Cell 0 has two dedicated CPUs, cell 1 four.
HOST = host(numa=PINNING)
LARGE = Flavor(name="large", vcpus=4, memory_mb=1024, root_gb=1, extra_specs=PINNED)
SMALL = Flavor(name="small", vcpus=1, memory_mb=1024, root_gb=1)


def text(element):
    return " ".join(" ".join(element.itertext()).split())


def served(state, *listed, **more):
    # A clock that stands still: a page is shown until its version differs.
    pages = PageCache(lambda: 0.0)
    return replace(sources(state, **more), counts=Counts(lambda: listed), pages=pages)


def page(agent):
    return html.fromstring(answer(agent, "/").body.decode())


def rows(tree):
    return [text(row) for row in tree.xpath("//*[@id='fits']//li")]


def test_each_flavor_has_its_room_as_a_bar_and_what_is_scarce():
    tree = page(served(HOST, LARGE, SMALL))
    large, small = rows(tree)
    assert large.startswith("large 1 PCPU: 4 CPUs requested")
    assert small == "small 2 VCPU: 1 vCPUs requested at cn1.example, 0 available"
    bars = tree.xpath("//*[@id='fits']//svg")
    assert [bar.get("aria-label") for bar in bars] == [
        "1 more guest of large",
        "2 more guests of small",
    ]
    assert [bar[0].get("width") for bar in bars] == ["50.0%", "100.0%"]


def test_a_flavor_that_never_fits_says_why():
    (row,) = rows(page(served(HOST, replace(LARGE, vcpus=5))))
    assert row == "large 0 never fits: needs 5 CPUs (PCPU) in one cell, the largest has 4"


def test_stranded_cpus_are_marked_and_explained_in_the_legend():
    tree = page(served(HOST, LARGE, SMALL))
    marked = tree.xpath("//a[contains(@class, 'cpu') and contains(@class, 'stranded')]")
    assert [cpu.get("aria-label") for cpu in marked] == [
        "CPU 2: free, stranded",
        "CPU 3: free, stranded",
    ]
    legend = text(tree.xpath("//*[@class='panel legend']//li[last()]")[0])
    assert legend == "stranded: free, but of use to no flavor"
    pages = replace(LARGE, name="pages", extra_specs={**PINNED, "hw:mem_page_size": "2MB"})
    whole = page(served(HOST, replace(pages, vcpus=2, memory_mb=1024), SMALL))
    assert "stranded" not in text(whole.xpath("//*[@class='panel legend']")[0])


def test_stranded_pages_are_hatched_and_said():
    tree = page(served(HOST, LARGE, SMALL))
    hatched = tree.xpath("//*[@class='pool'][svg/rect[@class='stranded']]")
    assert [text(pool) for pool in hatched] == ["2 MiB 1 GiB free of 1 GiB, stranded"] * 2
    assert hatched[0].xpath("svg/@aria-label")[0].endswith("free, stranded")


def test_stranded_devices_are_marked():
    devices = PciDevices(record([gpu("0000:0a:00.0", 0)]))
    state = replace(
        HOST, devices=devices, policy=replace(HOST.policy, pci=PciPolicy(aliases=ALIASES))
    )
    (unit,) = page(served(state, SMALL)).xpath("//a[contains(@class, 'unit')]")
    assert "stranded" in unit.get("class").split()
    assert ": available, stranded; " in unit.get("aria-label")
    used = replace(SMALL, name="gpu", extra_specs={"pci_passthrough:alias": "gpu:1"})
    (unit,) = page(served(state, used)).xpath("//a[contains(@class, 'unit')]")
    assert "stranded" not in unit.get("class").split()


def test_an_empty_catalogue_says_where_flavors_come_from():
    tree = page(served(HOST))
    assert "[capacity] flavors_file lists no flavor" in text(tree.xpath("//*[@id='fits']")[0])
    assert not tree.xpath("//*[contains(@class, 'stranded')]")


def test_the_page_is_made_anew_when_no_claim_is_granted_any_more():
    agent = served(HOST, LARGE)
    assert rows(page(agent))[0].startswith("large 1")
    closed = replace(agent, creation_error=lambda: NodeNotReady("libvirt is away"))
    assert rows(page(closed))[0].startswith("large 0")
    assert "libvirt is away" in text(page(closed).xpath("//*[@id='fits']")[0])
    drained = replace(HOST, drain=Drain(since=datetime(2026, 1, 1, tzinfo=UTC)))
    assert rows(page(served(drained, LARGE)))[0].startswith("large 0")


def test_the_page_is_made_anew_after_another_file_of_flavors_was_read():
    listed: list[tuple[Flavor, ...]] = [(LARGE,)]
    agent = replace(served(HOST), counts=Counts(lambda: listed[0]))
    assert len(rows(page(agent))) == 1
    listed[0] = (LARGE, SMALL)
    assert len(rows(page(agent))) == 2


def test_after_a_change_the_last_count_is_shown_for_some_time():
    now = [0.0]

    def clock():
        now[0] += 1  # each count takes a second
        return now[0]

    built = HOST.fold(claims.instance_claim(HOST, call(), NOON, request(1, 1024)).change)
    states = [HOST]
    agent = replace(
        served(HOST, LARGE, SMALL), snapshot=lambda: states[-1], pages=PageCache(lambda: 0.0)
    )
    agent.pages.room = KeptRoom(clock)
    assert rows(page(agent))[1].startswith("small 2")
    states.append(built)
    shown = page(agent)
    assert rows(shown)[1].startswith("small 2")
    assert "Counted at revision 0." in text(shown.xpath("//*[@id='fits']")[0])
    assert len(shown.xpath("//tr[@data-uuid]")) == 1  # the map itself is new
    now[0] += 10
    assert rows(page(agent))[1].startswith("small 1")
    assert "Counted at revision" not in text(page(agent).xpath("//*[@id='fits']")[0])


def test_the_page_says_that_placement_decides_on_amounts():
    state = host(numa=PINNING, judge_amounts=False)
    assert "Placement decides" in text(page(served(state, SMALL)).xpath("//*[@id='fits']")[0])


def test_a_claim_of_a_flavor_is_counted_on_the_page():
    build = request(4, 1024, 1, name="large", extra_specs=PINNED)
    state = HOST.fold(claims.instance_claim(HOST, call(), NOON, build).change)
    assert rows(page(served(state)))[0].startswith("large 0 PCPU: 4 CPUs requested")
