"""What still fits, beside the host map, and what is stranded on it."""

from lxml import html
from msgspec.structs import replace

from rtagent.api.page.host_map import KeptRoom
from rtagent.api.page.routes import PageCache
from rtagent.api.routes import answer
from rtagent.capacity.count import Counts
from rtagent.errors import NodeNotReady
from rtagent.model.request import Flavor
from tests.support.api_states import sources, text
from tests.support.device_states import with_builds
from tests.support.hosts import PINNED, PINNING, host, request

#: Cell 0 has two dedicated CPUs, cell 1 four.
HOST = host(numa=PINNING)
LARGE = Flavor(name="large", vcpus=4, memory_mb=1024, root_gb=1, extra_specs=PINNED)
SMALL = Flavor(name="small", vcpus=1, memory_mb=1024, root_gb=1)


def served(*listed):
    # A clock that stands still: a page is shown until its version differs.
    pages = PageCache(lambda: 0.0)
    return replace(sources(HOST), counts=Counts(lambda: listed), pages=pages)


def page(agent):
    return html.fromstring(answer(agent, "/").body.decode())


def rows(tree):
    return [text(row) for row in tree.xpath("//*[@id='fits']//li")]


def test_what_is_stranded_is_said_and_explained_in_the_legend():
    tree = page(served(LARGE, SMALL))
    cpus = tree.xpath("//a[contains(@class, 'cpu') and contains(@class, 'stranded')]/@aria-label")
    assert cpus == ["CPU 2: free, stranded", "CPU 3: free, stranded"]
    hatched = tree.xpath("//*[@class='pool'][svg/rect[@class='stranded']]")
    assert [text(pool) for pool in hatched] == ["2 MiB 1 GiB free of 1 GiB, stranded"] * 2
    legend = text(tree.xpath("//*[@class='panel legend']//li[last()]")[0])
    assert legend == "stranded: free, but of use to no flavor"


def test_the_page_is_made_anew_when_no_claim_is_granted_any_more_or_another_file_was_read():
    listed: list[tuple[Flavor, ...]] = [(LARGE,)]
    agent = replace(served(), counts=Counts(lambda: listed[-1]))
    assert rows(page(agent))[0].startswith("large 1")
    closed = replace(agent, creation_error=lambda: NodeNotReady("libvirt is away"))
    assert rows(page(closed))[0].startswith("large 0")
    assert "libvirt is away" in text(page(closed).xpath("//*[@id='fits']")[0])
    listed.append((LARGE, SMALL))
    assert len(rows(page(agent))) == 2


def test_after_a_change_the_last_count_is_shown_for_some_time():
    now = [0.0]

    def clock():
        now[0] += 1  # each count takes a second
        return now[0]

    built = with_builds(HOST, request(1, 1024))
    states = [HOST]
    agent = replace(served(LARGE, SMALL), snapshot=lambda: states[-1], pages=PageCache(lambda: 0.0))
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
