"""The pages of the fleet's capacity, without a browser."""

from __future__ import annotations

import re
from http import HTTPStatus
from urllib.parse import urlencode

import pytest
from lxml import html
from msgspec.structs import replace

from rtagent.api.page.capacity import KINDS, PARTS, ROWS
from rtagent.capacity.catalogue import MAX_FLAVORS
from rtagent.model.host_report import ServiceState
from rtagent.model.request import Flavor
from rtagent.scheduler.fleet_counts import FleetCounts
from tests.support.api_states import PageFleet, simulated
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


def text(element):
    return " ".join(" ".join(element.itertext()).split())


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


def test_a_bar_has_a_part_for_each_host_with_room_and_one_for_those_that_take_no_guests(fleet):
    bars = page(fleet).xpath("//a[@class='room-link']")
    by_name = {each.name: each for each in fleet.counts.capacity(by="host").flavors}
    longest = max(sum(width for _, _, width in parts(bar)) for bar in bars)
    assert longest == pytest.approx(100, abs=0.5)
    for bar in bars:
        flavor = by_name[bar.get("href").partition("=")[2]]
        added = sum(part.fits for part in flavor.summary.refused)
        taking = [group for group in flavor.groups if group.summary.room]
        expected = {f"{group.name}: {group.summary.room}" for group in taking}
        expected |= {f"hosts that take no guests: {added}"} if added else set()
        assert {label for _, label, _ in parts(bar)} == expected
        for kind, label, width in parts(bar):
            whole = sum(each for _, _, each in parts(bar))
            share = int(label.rpartition(" ")[2]) / (flavor.summary.room + added)
            assert width == pytest.approx(share * whole, abs=0.1)
            assert (kind == "refused") == label.startswith("hosts that")


def test_what_is_scarce_is_told_by_name_in_the_legend_and_by_a_pattern_of_its_own(fleet):
    tree = page(fleet)
    kinds = {kind for bar in tree.xpath("//a[@class='room-link']") for kind, _, _ in parts(bar)}
    assert kinds >= {"pcpu", "vcpu", "memory", "refused"}
    legend = [text(each) for each in tree.xpath("//*[@aria-label='Legend']/li")]
    expected = [label for kind, label in KINDS.items() if kind in kinds]
    assert legend == [*expected, "on hosts that take no guests now"]
    patterns = tree.xpath("//*[local-name()='pattern']")
    paths = [each.xpath("string(.//*[local-name()='path']/@d)") for each in patterns]
    assert {each.get("id") for each in patterns} == {f"room-{kind}" for kind in (*KINDS, "refused")}
    drawn = dict(zip((each.get("id") for each in patterns), paths, strict=True))
    del drawn["room-refused"]  # an outline
    assert len(set(drawn.values())) == len(drawn)


@pytest.mark.parametrize("by", ["zone", "aggregate"])
def test_bars_are_split_by_zone_or_aggregate(fleet, by):
    tree = page(fleet, by=by, q="small")
    (flavor,) = fleet.counts.capacity("small", by).flavors
    labels = {label for _, label, _ in parts(tree.xpath("//a[@class='room-link']")[0])}
    assert labels >= {f"{group.name}: {group.summary.room}" for group in flavor.groups}
    assert len(flavor.groups) == 3
    titles = [text(each) for each in tree.xpath("//a[@class='room-link']//*[local-name()='title']")]
    for group in flavor.groups:
        scarce = ", ".join(f"{each.resource} on {each.hosts}" for each in group.summary.scarce)
        assert f"{group.name}: {group.summary.room}; scarce: {scarce}" in titles


def test_flavors_are_sorted_searched_and_chosen_by_state(fleet):
    summaries = {each.name: each.summary for each in fleet.counts.capacity().flavors}
    for sort, key in {
        "name": lambda name: name,
        "room": lambda name: summaries[name].room,
        "hosts": lambda name: summaries[name].hosts_with_room,
        "largest": lambda name: summaries[name].largest,
    }.items():
        for order in ("up", "down"):
            keys = [key(name) for name in rows(page(fleet, sort=sort, order=order))]
            assert keys == sorted(keys, reverse=order == "down")
    assert rows(page(fleet, q="ARG")).keys() == {"large"}
    assert rows(page(fleet, state="never")).keys() == {"never", "wrong"}
    chips = [text(each) for each in page(fleet).xpath("//*[@aria-label='Numbers of flavors']/li")]
    with_room = sum(each.room > 0 for each in summaries.values())
    total = f"{len(summaries)} flavors"
    assert chips == [total, f"{with_room} with room", "2 that never fit"]


def test_a_flavor_has_each_host_with_its_number_and_why_it_is_no_more(fleet):
    (flavor,) = fleet.counts.capacity("pins", "host").flavors
    tree = page(fleet, flavor="pins")
    shown = rows(tree)
    assert len(shown) == len(flavor.groups) == 20
    for group in flavor.groups:
        row, summary = shown[group.name], group.summary
        assert row["Room"] == number(summary)
        why = [f"{part.why}: would add {part.fits}" for part in summary.refused]
        assert row["Scarce"] == " ".join(why or [part.message for part in summary.scarce])
    rooms = [int(row["Room"]) for row in shown.values()]
    assert rooms == sorted(rooms, reverse=True)
    summary = flavor.summary
    assert text(tree.xpath("//*[@id='room-title']")[0]) == f"{summary.room} more fit"
    about = text(tree.xpath("//*[@id='room']/p")[0])
    assert about == (
        f"{summary.hosts_with_room} of 20 hosts have room, most on {summary.largest_host} :"
        f" {summary.largest}."
    )
    scarce = [text(each) for each in tree.xpath("//*[@id='scarce']/li")]
    assert scarce == [f"{e.hosts} hosts , nearest miss: {e.message}" for e in summary.scarce]
    refused = [text(each) for each in tree.xpath("//*[@id='refused']/li")]
    assert refused == [f"1 host would add {e.fits} . {e.why}" for e in summary.refused]
    links = tree.xpath("//*[@id='table']//tbody//a/@href")
    assert set(links) == {f"/page/hosts/{group.node_uuid}" for group in flavor.groups}


def test_hosts_of_a_flavor_are_chosen_by_state_and_searched(fleet):
    (flavor,) = fleet.counts.capacity("pins", "host").flavors
    refused = {group.name for group in flavor.groups if group.summary.refused}
    full = {group.name for group in flavor.groups if not group.summary.room} - refused
    assert full and rows(page(fleet, flavor="pins", state="none")).keys() == full
    assert rows(page(fleet, flavor="pins", state="refused")).keys() == refused
    assert rows(page(fleet, flavor="pins", q="0007")).keys() == {"compute-0007"}
    assert rows(page(fleet, flavor="never", state="never")).keys() == full | {
        group.name for group in flavor.groups if group.summary.room
    }


def test_the_page_of_a_host_leads_to_what_still_fits_there(fleet):
    state = fleet.hosts.get_all_host_states()[3]
    host_page = opened(fleet, f"/page/hosts/{state.uuid}")
    (link,) = host_page.xpath("//a[text()='What still fits']/@href")
    shown = rows(opened(fleet, link))
    for flavor in fleet.counts.capacity(by="host").flavors:
        counted = [group.summary for group in flavor.groups if group.name == state.host]
        row = shown[flavor.name]
        assert row["Room"] == (number(counted[0]) if counted else "0")
        for part in counted[0].refused if counted else ():
            assert f"{part.why}: would add {part.fits}" in row["Scarce"]


def test_flavors_that_never_fit_or_are_not_known_say_why():
    states = [host_state(state=host(numa=PINNING))]
    fleet = PageFleet(*states, listed=(NEVER, TRAIT, SMALL), placement=object())
    shown = rows(page(fleet))
    assert shown["never"]["Scarce"] == "never fits: needs 64 CPUs (PCPU), the host has 6"
    assert (shown["trait"]["Room"], shown["trait"]["Scarce"]) == (
        "?",
        "not known: only Placement decides on required=HW_CPU_X86_AVX",
    )
    assert list(shown)[-1] == "trait"  # sorted by a number that it does not have
    assert text(page(fleet, flavor="never").xpath("//*[@id='room']")[0]).startswith(
        "Never fits needs 64 CPUs (PCPU), the host has 6"
    )
    title, why = page(fleet, flavor="trait").xpath("//*[@id='room']/*")
    assert text(title) == "Not known"
    assert text(why) == "Only Placement decides on required=HW_CPU_X86_AVX"


def test_what_is_not_counted_yet_is_said():
    fleet = PageFleet(host_state("cn1"), host_state("cn2"), listed=(SMALL,))
    fleet.turn = 0
    tree = page(fleet)
    assert rows(tree)["small"]["Scarce"] == "counting: 2 hosts left"
    assert text(tree.xpath("//*[contains(@class, 'room-chip')]")[0]) == "1 being counted"
    assert "2 of 2 hosts are not counted yet" in text(tree.xpath("//*[@id='notes']")[0])
    assert "2 of 2 hosts are not counted yet" in text(page(fleet, flavor="small"))


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
    advice = "rtagent schedule advise --flavor 'a b'"
    assert advice in text(page(fleet, flavor="a b"))
    assert "advise" not in text(page(fleet, flavor="small"))


def test_an_empty_catalogue_says_how_to_get_one():
    fleet = PageFleet(host_state())
    assert "flavors_file = /etc/rtagent/flavors.json" in text(page(fleet))
    unread = PageFleet(simulated(9))
    unread.turn = 0
    assert "The claims of the hosts are being read." in text(page(unread))
    assert "No host is known yet." in text(page(PageFleet()))


def test_an_unknown_flavor_and_an_unknown_host_are_not_found(fleet):
    for query in ("flavor=other", "host=other"):
        reply = fleet.sources.answer(f"/page/capacity?{query}")
        assert reply.status == HTTPStatus.NOT_FOUND
        assert b"other" in reply.body


@pytest.mark.parametrize("query", ["sort=x", "by=x", "state=x", "x=1", "flavor=small&by=zone"])
def test_a_wrong_query_is_named(fleet, query):
    reply = fleet.sources.answer(f"/page/capacity?{query}")
    assert reply.status == HTTPStatus.BAD_REQUEST
    assert re.findall(r"(\w+)=", query)[-1].encode() in reply.body


def test_flavors_beyond_the_limit_are_left_out_and_shown_when_they_are_asked_for():
    listed = [
        replace(SMALL, name=f"f{each:03}", memory_mb=each + 1) for each in range(MAX_FLAVORS + 2)
    ]
    fleet = PageFleet(host_state(), listed=listed)
    tree = page(fleet)
    assert len(rows(tree)) == ROWS
    assert "2 further flavors are left out" in text(tree.xpath("//*[@id='notes']")[0])
    last = page(fleet, flavor=listed[-1].name)
    (flavor,) = fleet.counts.capacity(listed[-1].name).flavors
    assert text(last.xpath("//*[@id='room-title']/b")[0]) == number(flavor.summary) == "8"


def test_hosts_that_placement_judges_and_hosts_without_a_report_are_named():
    policy = replace(host().policy, judge_amounts=False)
    fleet = PageFleet(host_state("cn1", replace(host(), policy=policy)), listed=(SMALL,))
    fleet.sources = replace(fleet.sources, aside=lambda: {"cn9": "too old", "cn1": "a twin"})
    notes = [text(each) for each in page(fleet).xpath("//*[@id='notes']/li")]
    assert notes == [
        "Placement decides on vCPUs, memory and disk of 1 host: they are counted with the ratios of"
        " the nodes.",
        "cn9 is not counted, because it has no report: too old",
    ]


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
