"""The pages of the fleet's capacity, without a browser."""

from http import HTTPStatus
from urllib.parse import urlencode

import pytest
from lxml import html
from msgspec.structs import replace

from rtagent.api.page.capacity import PARTS
from rtagent.model.host_report import ServiceState
from rtagent.model.request import Flavor
from rtagent.scheduler.fleet_counts import FleetCounts
from tests.support.api_states import PageFleet, simulated, text
from tests.support.host_states import aggregate, host_state
from tests.support.hosts import PINNED, PINNING, host

SMALL = Flavor(name="small", vcpus=1, memory_mb=1024, root_gb=1)
LARGE = Flavor(name="large", vcpus=4, memory_mb=8192, root_gb=20)
PINS = Flavor(name="pins", vcpus=8, memory_mb=2048, root_gb=20, extra_specs=PINNED)
NEVER = replace(PINS, name="never", vcpus=64)
WRONG = replace(PINS, name="wrong", extra_specs={"hw:cpu_policy": "odd"})
TRAIT = replace(SMALL, name="trait", extra_specs={"trait:HW_CPU_X86_AVX": "required"})
#: What a cell without a number has.
NOTHING = "\u2013"
OFF = ServiceState(disabled=True, disabled_reason="disks")


def opened(fleet, target):
    reply = fleet.sources.answer(target)
    assert reply.status == HTTPStatus.OK, reply.body
    return html.fromstring(reply.body.decode())


def page(fleet, **query):
    return opened(fleet, f"/page/capacity?{urlencode(query)}")


def rows(tree):
    """The rows of the table by name; each is its cells by their labels."""
    return {
        text(row.xpath("./th/a")[0]): {
            cell.get("data-label"): text(cell) for cell in row.xpath("./td")
        }
        for row in tree.xpath("//*[@id='table']//tbody/tr")
    }


def parts(element):
    """The parts of a bar: what is scarce, the label and the width in percent."""
    return [
        (
            part.get("class").split()[1],
            text(part).partition("; scarce: ")[0],
            float(part.get("width").rstrip("%")),
        )
        for part in element.xpath(".//*[local-name()='rect']")
    ]


def number(summary):
    return f"{'≥ ' * summary.at_least}{summary.room}"


@pytest.fixture(scope="module")
def fleet():
    """20 hosts, of which three take no guests."""
    return PageFleet(*map(simulated, range(20)), listed=(SMALL, LARGE, PINS, NEVER, WRONG))


def test_each_number_of_a_flavor_is_the_one_that_was_counted(fleet):
    flavors = fleet.counts.capacity(by="host").flavors
    shown = rows(page(fleet))
    assert shown.keys() == {flavor.name for flavor in flavors}
    assert len({flavor.summary.room for flavor in flavors}) > 3
    for flavor in flavors:
        row, summary = shown[flavor.name], flavor.summary
        assert row["Room"] == number(summary)
        assert row["Claims"] == (str(flavor.claims) if flavor.claims else NOTHING)
        if flavor.error:
            assert row["Scarce"] == f"never fits: {flavor.error}"
            continue
        assert row["Hosts with room"] == f"{summary.hosts_with_room} of {summary.hosts}"
        largest = f"{summary.largest} {summary.largest_host}" if summary.room else NOTHING
        assert row["Most on one host"] == largest
        added = sum(part.fits for part in summary.refused)
        assert (f"3 hosts that take no guests would add {added}" in row["Scarce"]) == (added > 0)
        for part in () if summary.never else summary.scarce[:2]:
            assert f"{part.hosts} hosts, nearest miss: {part.message}" in row["Scarce"]


def test_flavors_are_searched_and_chosen_by_state(fleet):
    assert rows(page(fleet, q="ARG")).keys() == {"large"}
    assert rows(page(fleet, state="never")).keys() == {"never", "wrong"}


def test_a_flavor_has_each_host_with_its_number_and_why_it_is_no_more(fleet):
    (flavor,) = fleet.counts.capacity("pins", "host").flavors
    shown = rows(page(fleet, flavor="pins"))
    assert len(shown) == len(flavor.groups) == 20
    for group in flavor.groups:
        row, summary = shown[group.name], group.summary
        assert row["Room"] == number(summary)
        why = [f"{part.why}: would add {part.fits}" for part in summary.refused]
        assert row["Scarce"] == " ".join(why or [part.message for part in summary.scarce])
    rooms = [int(row["Room"]) for row in shown.values()]
    assert rooms == sorted(rooms, reverse=True)
    refused = {group.name for group in flavor.groups if group.summary.refused}
    full = {group.name for group in flavor.groups if not group.summary.room} - refused
    assert full and rows(page(fleet, flavor="pins", state="none")).keys() == full
    assert rows(page(fleet, flavor="pins", state="refused")).keys() == refused
    assert rows(page(fleet, flavor="pins", q="0007")).keys() == {"compute-0007"}


def test_flavors_that_never_fit_or_are_not_known_say_why():
    states = [host_state(state=host(numa=PINNING))]
    fleet = PageFleet(*states, listed=(NEVER, TRAIT, SMALL), placement=object())
    shown = rows(page(fleet))
    assert shown["never"]["Scarce"] == "never fits: needs 64 CPUs (PCPU), the host has 6"
    cells = (shown["trait"]["Room"], shown["trait"]["Scarce"])
    assert cells == ("?", "not known: only Placement decides on required=HW_CPU_X86_AVX")
    assert list(shown)[-1] == "trait"  # sorted by a number that it does not have
    for flavor, why in (
        ("never", "Never fits needs 64 CPUs (PCPU), the host has 6"),
        ("trait", "Not known Only Placement decides on required=HW_CPU_X86_AVX"),
    ):
        (room,) = page(fleet, flavor=flavor).xpath("//*[@id='room']")
        assert text(room).startswith(why)


def test_what_is_not_counted_yet_is_said():
    fleet = PageFleet(host_state("cn1"), host_state("cn2"), listed=(SMALL,))
    fleet.turn = 0
    with fleet.sources.pages.waiting:  # so that no request waits for the count
        every, one = page(fleet), page(fleet, flavor="small")
    assert rows(every)["small"]["Scarce"] == "counting: 2 hosts left"
    for tree in (every, one):
        assert "2 of 2 hosts are not counted yet" in text(tree)


def test_hosts_that_placement_judges_and_hosts_without_a_report_are_named():
    policy = replace(host().policy, judge_amounts=False)
    fleet = PageFleet(host_state("cn1", replace(host(), policy=policy)), listed=(SMALL,))
    fleet.sources = replace(fleet.sources, aside=lambda: {"cn9": "too old", "cn1": "a twin"})
    notes = [text(each) for each in page(fleet).xpath("//*[@id='notes']/li")]
    ratios = "they are counted with the ratios of the nodes"
    assert notes == [
        f"Placement decides on vCPUs, memory and disk of 1 host: {ratios}.",
        "cn9 is not counted, because it has no report: too old",
    ]


class Waits(FleetCounts):
    """Notes for how long it is waited for."""

    def __init__(self, parts):
        super().__init__(parts)
        self.waits = []

    def wait(self, patience):
        self.waits.append(patience)


@pytest.mark.parametrize("query", ["", "flavor=x"])
def test_one_request_waits_a_second_for_the_count_and_the_others_do_not_wait(query):
    fleet = PageFleet(host_state())
    counts = Waits(lambda: fleet.scheduler.parts)
    fleet.sources = replace(fleet.sources, counts=counts)
    with fleet.sources.pages.waiting:  # as long as another one waits
        fleet.sources.answer(f"/page/capacity?{query}")
    assert set(counts.waits) == {0.0}
    fleet.sources.answer(f"/page/capacity?{query}")
    assert max(counts.waits) == 1.0
    assert not fleet.sources.pages.waiting.locked()


def test_a_flavor_without_room_says_how_to_find_moves_that_would_make_some():
    fleet = PageFleet(simulated(14), listed=(replace(PINS, name="a b"), SMALL))
    assert "rtagent schedule advise --flavor 'a b'" in text(page(fleet, flavor="a b"))
    assert "advise" not in text(page(fleet, flavor="small"))


def test_an_unknown_flavor_and_an_unknown_host_are_not_found(fleet):
    for query in ("flavor=other", "host=other"):
        reply = fleet.sources.answer(f"/page/capacity?{query}")
        assert reply.status == HTTPStatus.NOT_FOUND
        assert b"other" in reply.body


def test_a_bar_of_many_groups_has_a_part_for_the_smaller_ones_together():
    groups = [aggregate(f"a{each:02}", f"cn{each}") for each in range(PARTS + 10)]
    hosts = [
        host_state(f"cn{number}", host(reserved_memory_mb=number * 100), aggregates=[group])
        for number, group in enumerate(groups)
    ]
    fleet = PageFleet(*hosts, listed=(Flavor(name="mb", vcpus=1, memory_mb=2048),))
    bar = parts(page(fleet, by="aggregate").xpath("//a[@class='room-link']")[0])
    assert len(bar) == PARTS
    (flavor,) = fleet.counts.capacity(by="aggregate").flavors
    rooms = sorted((group.summary.room for group in flavor.groups), reverse=True)
    assert f"11 others: {sum(rooms[PARTS - 1 :])}" in [label for _, label, _ in bar]
    assert sum(int(label.rpartition(" ")[2]) for _, label, _ in bar) == flavor.summary.room
    offered = page(fleet).xpath("//select[@name='by']/option/@value")
    assert offered == ["zone", "aggregate"]


def test_names_of_flavors_and_hosts_stay_text():
    evil = '../<b>&"#?/\u202e'
    fleet = PageFleet(host_state(evil, service=OFF), listed=(replace(SMALL, name=evil),))
    tree = page(fleet)
    assert not tree.xpath("//main//b[not(@class)]")
    (link,) = tree.xpath("//*[@id='table']//tbody/tr/th/a/@href")
    shown = opened(fleet, link)
    assert text(shown.xpath("//h1")[0]) == evil.replace("\u202e", r"\u202e")
    assert len(rows(shown)) == 1
