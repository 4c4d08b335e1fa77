"""The pages of a scheduler in a real browser."""

import pytest
from msgspec.structs import replace
from selenium.webdriver.common.by import By

from rtagent.api.page.fit import EXAMPLES
from rtagent.model.printable import printable
from rtagent.model.request import Flavor
from rtagent.scheduler.errors import NoValidHost
from tests.functional.page.browsing import OF_COLOURS, OF_THE_MAP
from tests.servers.chromium import look
from tests.support.api_states import PageFleet, simulated
from tests.support.host_states import host_state
from tests.support.hosts import PINNED, uid
from tests.support.scheduling import spec

TILES = """
return [...document.querySelectorAll("#heat a.tile")].map((tile) => [
  tile.getAttribute("href").split("/").pop(),
  tile.classList[2],
  tile.getAttribute("title"),
  tile.classList.contains("drifts"),
]);
"""
#: The cells of rows, each by the label of its column; that of the name is "".
ROWS = """
return [...document.querySelectorAll(arguments[0])].map((row) => Object.fromEntries(
  [...row.cells].map((cell) => [cell.dataset.label || "", cell.textContent.trim()])));
"""
#: More than have their names on the heat map, and than one page of the table lists.
HOSTS = 300
SCRIPT = "javascript:alert(1)//https://x.example/"
EVIL = "<img src=x onerror=alert(1)>\u202e\u0007"


SMALL = Flavor(name="small", vcpus=1, memory_mb=1024, root_gb=1)
#: Flavors with different numbers on different hosts, and those without one.
LISTED = (
    SMALL,
    replace(SMALL, name="memory", memory_mb=24 * 1024),
    replace(SMALL, name="disk", root_gb=700),
    replace(SMALL, name="pins", vcpus=8, extra_specs=PINNED),
    replace(SMALL, name="never", vcpus=64, extra_specs=PINNED),
    replace(SMALL, name="odd", extra_specs={"hw:cpu_policy": "odd"}),
)


@pytest.fixture(scope="module")
def few():
    """As many hosts as have a part of a bar each."""
    with PageFleet(*map(simulated, range(30)), listed=LISTED) as made:
        yield made


@pytest.fixture(scope="module")
def fleet():
    states = [simulated(number) for number in range(HOSTS)]
    states.append(host_state(EVIL, up=False, why_not=EVIL, page_url=SCRIPT))
    states[9] = simulated(9, page_url="https://compute-0009.example:8775/")
    with PageFleet(*states) as made:
        yield made


def status(host):
    """The status of a host's document, as the page has it."""
    if not host["alive"]:
        return "down"
    if host["draining"]:
        return "draining"
    if host["disabled"]:
        return "disabled"
    return "up" if host["up"] else "closed"


def test_the_heat_map_shows_what_the_document_of_the_hosts_has(plain_browser, fleet):
    plain_browser.open(fleet.url)
    tiles = plain_browser.run(TILES)
    hosts = fleet.document("/hosts")["hosts"]
    assert len(tiles) == HOSTS + 1
    assert [each[0] for each in tiles] == [each["uuid"] for each in hosts]
    assert [each[1] for each in tiles] == [status(each) for each in hosts]
    assert [each[3] for each in tiles] == [each["differing"] > 0 for each in hosts]
    for tile, host in zip(tiles, hosts, strict=True):
        assert f"{host['num_instances']} instance" in tile[2]
    assert {each[1] for each in tiles} == {"down", "draining", "disabled", "closed", "up"}


def test_hosts_are_filtered_grouped_and_opened_without_a_script(plain_browser, fleet):
    plain_browser.open(fleet.url + "?status=draining&group=zone&by=memory")
    titles = [each.text for each in plain_browser.all(".group-title")]
    assert [each.split()[0] for each in titles] == ["zone-0", "zone-1", "zone-2"]
    expected = [h for h in fleet.document("/hosts")["hosts"] if status(h) == "draining"]
    assert len(plain_browser.run(TILES)) == len(expected) == HOSTS // 50
    field = plain_browser.find("#f-q")
    field.send_keys("compute-0017")
    field.submit()
    plain_browser.wait(lambda: "q=compute-0017" in plain_browser.driver.current_url)
    [tile] = plain_browser.all("#heat a.tile")
    assert tile.text.split()[0] == "compute-0017"
    tile.send_keys("\n")
    plain_browser.wait(lambda: "/page/hosts/" in plain_browser.driver.current_url)
    assert plain_browser.text("h1") == "compute-0017"
    assert "firmware" in plain_browser.text("#trouble")


def test_the_table_is_sorted_by_its_heads(plain_browser, fleet):
    plain_browser.open(fleet.url + "?sort=promised&order=down")
    hosts = [each.text for each in plain_browser.all("#table tbody th a:not(.own-page)")]
    assert len(hosts) == 50
    numbers = [
        float(each.get_attribute("aria-label").split()[0])
        for each in plain_browser.all("#table tbody svg.promised")
    ]
    assert numbers == sorted(numbers, reverse=True) and numbers[0] > numbers[-1] - 1
    assert plain_browser.find("th[aria-sort]").get_attribute("aria-sort") == "descending"
    plain_browser.find('a[rel="next"]').send_keys("\n")
    plain_browser.wait(lambda: "from=50" in plain_browser.driver.current_url)
    assert f"51 to 100 of {HOSTS + 1}" in plain_browser.text(".pager")


def test_a_host_has_the_map_that_its_agent_would_show(plain_browser, fleet):
    plain_browser.open(fleet.url + "page/hosts/compute-0009")
    [state] = [s for s in fleet.sources.hosts() if s.host == "compute-0009"]
    pinned = {
        f"cpu-{cpu}"
        for info in state.instances.values()
        for claim in info.claims
        if claim.numa_topology
        for cpu in claim.numa_topology.taken
    }
    shown = plain_browser.run(
        "return [...document.querySelectorAll('#map .cpu.claimed')].map((each) => each.id)"
    )
    assert set(shown) == pinned and pinned
    owners = plain_browser.run(
        "return [...document.querySelectorAll('#owners tbody tr')].map((e) => e.dataset.uuid)"
    )
    assert set(owners) == set(fleet.document("/hosts/compute-0009")["host"]["instances"])


def test_a_flavor_opens_its_hosts_which_open_what_still_fits_there(plain_browser, few):
    plain_browser.open(few.url)
    plain_browser.driver.find_element(By.LINK_TEXT, "Capacity").send_keys("\n")
    plain_browser.wait(lambda: plain_browser.all("#table"))
    field = plain_browser.find("#f-q")
    field.send_keys("pins")
    field.submit()
    plain_browser.wait(lambda: "q=pins" in plain_browser.driver.current_url)
    plain_browser.find(".room-link").send_keys("\n")
    plain_browser.wait(lambda: plain_browser.all("#room-title"))
    [pins] = few.counts.capacity("pins", "host").flavors
    assert plain_browser.text("#room-title b") == str(pins.summary.room)
    hosts = {group.name: str(group.summary.room) for group in pins.groups}
    shown = plain_browser.run(ROWS, "#table tbody tr")
    assert {row[""]: row["Room"] for row in shown} == hosts
    name = shown[0][""]
    plain_browser.driver.find_element(By.LINK_TEXT, name).send_keys("\n")
    plain_browser.wait(lambda: plain_browser.all("#host-title"))
    plain_browser.driver.find_element(By.LINK_TEXT, "What still fits").send_keys("\n")
    plain_browser.wait(lambda: plain_browser.all("#table"))
    assert name in plain_browser.text("h1")
    rows = plain_browser.run(ROWS, "#table tbody tr")
    assert [row["Room"] for row in rows if row[""].startswith("pins")] == [hosts[name]]


def test_pages_of_the_capacity_fit_and_have_no_serious_problem(browser, few):
    for page in ("", "?by=zone&state=room", "?flavor=pins", "?flavor=never"):
        browser.open(f"{few.url}page/capacity{page}")
        assert browser.all("#main svg"), page
        for width in (320, 360, 3840):
            look(browser.driver, width=width)
            assert browser.run("return document.documentElement.scrollWidth") <= width, page
        for width in (1024, 1280):
            look(browser.driver, width=width)
            assert browser.broken_words() == [], page
        assert browser.violations() == [], page
        look(browser.driver, dark=True)
        assert browser.violations(rules=OF_COLOURS) == [], page
        look(browser.driver)


def test_explain_shows_each_host_as_the_scheduler_explains_it(plain_browser, fleet):
    plain_browser.open(fleet.url + "page/explain")
    for name, value in {"vcpus": 2, "memory_mb": 512, "cpu_policy": "dedicated"}.items():
        plain_browser.find(f"[name={name}]").send_keys(str(value))
    plain_browser.find("#explain button").click()
    plain_browser.wait(lambda: plain_browser.all("#verdict"))
    request = spec(2, 512, 0, extra_specs={"hw:cpu_policy": "dedicated"})
    explanation = fleet.scheduler.explain(request)
    fitting = [each for each in explanation.hosts if each.rank is not None]
    assert f"{len(fitting)} of {HOSTS + 1} hosts fit" in plain_browser.text("#verdict")
    refused = {o.filter for host in explanation.hosts for o in host.objections}
    chips = plain_browser.text("#verdict .chips")
    assert refused and all(f"{name} refuses" in chips for name in refused)
    plain_browser.find('.chips a[href*="by=ComputeFilter"]').send_keys("\n")
    plain_browser.wait(lambda: "by=ComputeFilter" in plain_browser.driver.current_url)
    [first, *_] = plain_browser.all("#explained tbody tr")
    assert "refused" in first.text and "ComputeFilter" in first.text
    assert not plain_browser.all("#main[data-live]")


def test_decisions_are_those_of_the_document(plain_browser, fleet):
    fleet.scheduler.select_destinations(spec(), [uid(301)])
    plain_browser.open(fleet.url + "page/decisions")
    decision, *_ = fleet.document("/decisions")["decisions"]
    row = plain_browser.text("#decisions tbody tr")
    for value in (decision["purpose"], decision["choices"][0]["host"], uid(301)):
        assert value in row


def test_a_decision_shows_every_number_that_it_was_made_from(plain_browser, fleet):
    fleet.scheduler.select_destinations(spec(), [uid(310)], alternates=True)
    made = fleet.scheduler.decision(uid(310))
    comparison = made.comparisons[uid(310)]
    plain_browser.open(fleet.url + "page/decisions?outcome=selected")
    plain_browser.find(f'a[href$="/{made.logged.choices[0].operation_id}"]').send_keys("\n")
    plain_browser.wait(lambda: plain_browser.all(".choice"))
    assert plain_browser.text(".choice .why") == comparison.why
    shown = plain_browser.run(ROWS, ".choice tbody tr")
    expected = []
    for contender in (comparison.selected, *comparison.others):
        weights = {
            score.weigher: f"{score.weight:.4g}"
            f"{score.normalized:.4g} \u00d7 {score.multiplier:.4g}, of {score.raw:.10g}"
            for score in contender.weights
        }
        expected.append({"": contender.host, "Weight": f"{contender.weight:.4g}", **weights})
    roles = [row.pop("Became") for row in shown]
    assert shown == expected
    alternates = made.logged.choices[0].alternates
    assert roles == ["selected", *["alternate"] * len(alternates)]
    refused = {name: str(number) for name, number in made.logged.refused.items()}
    facts = plain_browser.text("#about")
    assert refused and all(f"Refused by {name}\n{n}" in facts for name, n in refused.items())
    assert f"Hosts searched\n{made.logged.hosts}" in facts
    rows = plain_browser.run(ROWS, "#refusals tbody tr")
    kept = [(each.filter, printable(each.rejection.message)) for each in made.refusals]
    assert [(row["Filter"], row["Why"]) for row in rows] == kept
    more = sum(made.logged.refused.values()) - len(kept)
    assert (f"{more} more refusals" in plain_browser.text("#refusals")) == (more > 0)


def test_a_failed_decision_shows_why_each_host_was_refused(plain_browser, fleet):
    with pytest.raises(NoValidHost):
        fleet.scheduler.select_destinations(spec(99), [uid(311)])
    made = fleet.scheduler.decision(uid(311))
    plain_browser.open(f"{fleet.url}page/decisions/{uid(311)}")
    assert plain_browser.text("#error") == made.logged.error
    assert not plain_browser.all(".choice")
    rows = plain_browser.run(ROWS, "#refusals tbody tr")
    assert len(rows) == len(made.refusals)
    assert rows[-1]["Why"] == str(made.refusals[-1].rejection.reasons[0])


def test_a_host_links_to_the_decisions_that_put_servers_on_it(plain_browser, fleet):
    [selected] = fleet.scheduler.select_destinations(spec(), [uid(312)])
    plain_browser.open(f"{fleet.url}page/hosts/{selected.selected.host}")
    link = plain_browser.find(f'#decided a[href$="/{selected.selected.operation_id}"]')
    link.send_keys("\n")
    plain_browser.wait(lambda: plain_browser.all(".choice"))
    assert uid(312) in plain_browser.text(".choice")


def test_an_empty_request_has_examples_that_are_explained(plain_browser, fleet):
    for label in EXAMPLES:
        plain_browser.open(fleet.url + "page/explain")
        plain_browser.driver.find_element(By.LINK_TEXT, label).send_keys("\n")
        plain_browser.wait(lambda: plain_browser.all("#verdict"))
        assert not plain_browser.all("[aria-invalid], #mistake, #examples")


def test_pages_of_a_scheduler_fit_and_have_no_serious_problem(browser, fleet):
    evacuation = spec(purpose="evacuation", ignore_hosts=["compute-0001"])
    fleet.scheduler.select_destinations(evacuation, [uid(302)])
    pages = {
        "?status=draining&group=aggregate": True,
        "": False,  # hundreds of tiles like these
        "page/hosts/compute-0029": True,
        "page/decisions": True,
        f"page/decisions/{uid(302)}": True,
        "page/explain?vcpus=2&memory_mb=64&host=compute-000": True,
        "page/explain?vcpus=x": True,
    }
    for page, examined in pages.items():
        browser.open(fleet.url + page)
        for width in (320, 3840):
            look(browser.driver, width=width)
            assert browser.run("return document.documentElement.scrollWidth") <= width, page
        for width in (1024, 1280):
            look(browser.driver, width=width)
            assert browser.broken_words() == [], page
        assert not examined or browser.violations(*OF_THE_MAP) == [], page
    look(browser.driver, dark=True)
    for page in ("?q=compute-000", "page/explain", f"page/decisions/{uid(302)}"):
        browser.open(fleet.url + page)
        assert browser.violations(rules=OF_COLOURS) == [], page


def test_hostile_names_of_hosts_stay_text(browser, fleet):
    [host] = [s for s in fleet.sources.hosts() if s.host == EVIL]
    fleet.scheduler.select_destinations(spec(), [uid(313)])
    decided = f"page/decisions/{uid(313)}"
    for page in ("?status=closed&q=img", f"page/hosts/{host.uuid}", decided):
        browser.open(fleet.url + page)
        text = browser.find("#main").get_property("textContent")
        assert r"<img src=x onerror=alert(1)>\u202e\x07" in text
        assert not browser.all("main img, [onerror]")


def test_hosts_link_to_the_pages_of_their_agents(plain_browser, fleet):
    for page in ("?q=compute-0009", "page/hosts/compute-0009"):
        plain_browser.open(fleet.url + page)
        [link] = plain_browser.all("a.own-page")
        assert link.get_attribute("href") == "https://compute-0009.example:8775/"
        assert link.get_attribute("rel") == "noreferrer"


def test_what_a_hostile_agent_reports_as_its_page_stays_text(browser, fleet):
    [host] = [s for s in fleet.sources.hosts() if s.host == EVIL]
    for page in ("?status=closed&q=img", f"page/hosts/{host.uuid}"):
        browser.open(fleet.url + page)
        assert not browser.all("a.own-page")
        links = browser.run("return [...document.links].map((each) => each.protocol)")
        assert set(links) == {"http:"}
    assert SCRIPT in browser.text("#about")
