"""Claims, a claim, the timeline and "would it fit?" in a real browser."""

import re
from urllib.parse import urlencode

import pytest
from selenium.webdriver.common.by import By

from rtagent.api.page.fit import EXAMPLES
from rtagent.api.page.rendering import megabytes
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.model.health import Status
from rtagent.virt.libvirt.guest import apply
from rtagent.virt.simulate import domain_xml, edit
from tests.functional.page.browsing import OF_THE_MAP
from tests.functional.page.page_hosts import PageHost, populate
from tests.servers.chromium import look

PAGES = ("page/claims", "page/timeline", "page/history", "page/claims/{}")
ROWS = "#claim-rows tr"
#: What a cell without a value shows.
NONE = "\N{EN DASH}"
CELLS = """
return [...document.querySelectorAll(arguments[0])].map((row) => {
  const head = row.querySelector("th");
  const found = { name: (head.querySelector("a, time") || head).textContent };
  for (const cell of row.querySelectorAll("td"))
    found[cell.dataset.label] = cell.textContent.trim();
  return found;
});
"""


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """A populated host on which something of every kind is wrong."""
    with PageHost(tmp_path_factory.mktemp("host")) as made:
        populate(made)
        with pytest.raises(ComputeResourcesUnavailable):
            made.pinned("too-large", 200)
        made.timeline.health("placement", Status.FAIL, "it does not answer")
        drifting, gone = named(made, "database-2"), named(made, "web-3")
        document = apply(
            domain_xml(drifting.owner_id, vcpus=4, memory_mb=drifting.flavor.memory_mb), drifting
        )
        with edit(made.file) as world:
            world.remove_domain(drifting.owner_id)
            world.remove_domain(gone.owner_id)
            world.add_domain(re.sub(r'(vcpu="1" cpuset=)"\d+"', r'\1"1"', document))
        made.release(named(made, "web-2"))
        made.audit()
        yield made


def named(host, name):
    """Return the claim of the guest with this name."""
    [claim] = [each for each in host.state.claims.values() if each.instance.display_name == name]
    return claim


def shown(browser, selector=ROWS):
    """Return the cells of the rows, each by the label of its column; the first one as ``name``."""
    return browser.run(CELLS, selector)


# -- claims ------------------------------------------------------------------------------------


def test_the_table_shows_what_the_document_of_the_claims_has(plain_browser, troubled):
    plain_browser.open(troubled.url + "page/claims")
    rows = shown(plain_browser)
    claims = troubled.document("/claims")["claims"]
    assert [each["name"] for each in rows] == [c["instance"]["display_name"] for c in claims]
    for row, claim in zip(rows, claims, strict=True):
        assert (row["State"], row["Kind"]) == (claim["state"], claim["kind"])
        assert row["Memory"] == megabytes(claim["memory_mb"])
        assert str(claim["pcpus"] or claim["vcpus"]) in row["CPUs"]
        assert row["Devices"] == str(len(claim["pci"]) + len(claim["resources"]) or NONE)
        assert (row["Lease ends"] != NONE) == (claim["expires_at"] is not None)
    flags = {each["name"]: each["Flags"] for each in rows if each["Flags"] != NONE}
    assert flags == {"database-2": "drift", "web-3": "suspect"}
    drifting = {each["claim_uuid"] for each in troubled.document("/drift")["drift"]}
    assert drifting == {named(troubled, "database-2").uuid}
    assert "left-behind" in plain_browser.text("#orphans")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"q": "DATABASE-1"}, ["database-1"]),
        ({"state": "building"}, ["build-1"]),
        ({"flag": "suspect"}, ["web-3"]),
        ({"flag": "drift"}, ["database-2"]),
        ({"q": "database", "sort": "name", "order": "down"},
         ["database-4", "database-3", "database-2", "database-1"]),
        ({"q": "nothing-like-it"}, []),
    ],
)  # fmt: skip
def test_filters_and_order_work_by_a_link(plain_browser, troubled, query, names):
    plain_browser.open(f"{troubled.url}page/claims?{urlencode(query)}")
    assert [each["name"] for each in shown(plain_browser)] == names


def test_filters_and_order_work_by_the_form_and_the_keyboard(plain_browser, troubled):
    plain_browser.open(troubled.url + "page/claims")
    field = plain_browser.find("#f-q")
    field.send_keys("web")
    field.submit()
    plain_browser.wait(lambda: "q=web" in plain_browser.driver.current_url)
    assert [each["name"] for each in shown(plain_browser)] == ["web-1", "web-3"]
    plain_browser.find('thead a[href*="sort=name"]').send_keys("\n")
    plain_browser.wait(lambda: "sort=name" in plain_browser.driver.current_url)
    plain_browser.find('thead a[href*="sort=name"]').send_keys("\n")
    plain_browser.wait(lambda: "order=down" in plain_browser.driver.current_url)
    assert [each["name"] for each in shown(plain_browser)] == ["web-3", "web-1"]
    assert plain_browser.find("th[aria-sort]").get_attribute("aria-sort") == "descending"


def test_a_new_claim_appears_and_the_filter_keeps_its_text(browser, troubled):
    browser.open(troubled.url + "page/claims")
    browser.wait(lambda: browser.text("#connection") == "Live")
    browser.find("#f-q").send_keys("what I type")
    made = troubled.claim("appears", 1, 64)
    browser.wait(lambda: browser.all(f"#claim-{made.uuid}"))
    assert browser.find("#f-q").get_property("value") == "what I type"
    troubled.release(made)
    browser.wait(lambda: not browser.all(f"#claim-{made.uuid}"))


# -- a claim -----------------------------------------------------------------------------------


def test_a_claim_shows_its_history_as_the_document_has_it(plain_browser, troubled):
    claim = named(troubled, "web-3")
    plain_browser.open(f"{troubled.url}page/claims/{claim.uuid}")
    rows = shown(plain_browser, "#history tbody tr")
    history = troubled.document(f"/claims/{claim.uuid}/history")["history"]
    assert [each["Action"] for each in rows] == [each["action"] for each in history]
    assert [each["action"] for each in history] == ["suspect", "activate", "create"]
    for row, event in zip(rows, history, strict=True):
        assert row["State"].endswith(event["after"]["state"])
        assert event["at"][:10] in row["name"]
    assert history[0]["reason"] in rows[0]["Reason"]
    assert "neither running nor defined" in plain_browser.text("#trouble")


def test_a_claim_shows_where_its_domain_differs(plain_browser, troubled):
    claim = named(troubled, "database-2")
    plain_browser.open(f"{troubled.url}page/claims/{claim.uuid}")
    marked = plain_browser.all("#guest tbody tr:not(.same)")
    assert len(marked) == 1
    [sign, ours, theirs] = marked[0].find_elements("css selector", "td")
    assert "differs" in sign.get_property("textContent")
    assert 'vcpu="1"' in ours.text and 'cpuset="1"' in theirs.text
    assert "1 line differs" in plain_browser.text("#guest")
    assert "host CPU 1" in plain_browser.text("#trouble")
    same = named(troubled, "database-1")
    plain_browser.open(f"{troubled.url}page/claims/{same.uuid}")
    assert "no difference" in plain_browser.text("#guest")
    assert not plain_browser.all("#guest tbody tr:not(.same)")
    document = plain_browser.find("#document pre").get_property("textContent")
    assert document.splitlines() == troubled.hypervisor.document(same.owner_id).xml.splitlines()


def test_a_claim_that_has_ended_shows_its_history(plain_browser, troubled):
    made = troubled.claim("short-lived", 1, 64)
    troubled.release(made)
    plain_browser.open(f"{troubled.url}page/claims/{made.uuid}")
    assert "has ended" in plain_browser.text("main")
    actions = [each["Action"] for each in shown(plain_browser, "#history tbody tr")]
    assert actions == ["release", "create"]
    assert troubled.sources.answer("/page/claims/nothing").status == 404
    plain_browser.open(troubled.url + "page/history")
    assert made.uuid in plain_browser.text("#history tbody")


# -- would it fit? -----------------------------------------------------------------------------


def fill(browser, **values):
    for name, value in values.items():
        browser.find(f"[name={name}]").send_keys(str(value))
    browser.find("#fit button").click()
    browser.wait(lambda: "?" in browser.driver.current_url and browser.all("#fit"))


def test_a_guest_that_fits_is_shown_on_the_map_and_nothing_is_claimed(plain_browser, troubled):
    revision = troubled.state.revision
    plain_browser.open(troubled.url + "page/fit")
    fill(plain_browser, vcpus=2, memory_mb=1024, cpu_policy="dedicated", alias="gpu", devices=1)
    plain_browser.wait(lambda: plain_browser.all("#verdict h2"))
    assert "It fits" in plain_browser.text("#verdict h2")
    cpus = {each.get_attribute("id") for each in plain_browser.all("#map .cpu.would-be")}
    listed = " ".join(plain_browser.find("#verdict .pins").get_property("textContent").split())
    pins = {f"cpu-{each}" for each in re.findall(r"on CPU (\d+)", listed)}
    assert len(cpus) == 2 and cpus == pins
    [device] = plain_browser.all("#map .unit.would-be")
    assert device.get_attribute("id").removeprefix("dev-") in plain_browser.text("#verdict")
    assert troubled.state.revision == revision
    assert "would-be guest" in plain_browser.text("#owners")


def test_each_reason_of_a_refusal_is_shown_at_its_place(plain_browser, troubled):
    query = urlencode({"vcpus": 40, "memory_mb": 90001, "cpu_policy": "dedicated"})
    plain_browser.open(f"{troubled.url}page/fit?{query}")
    assert "does not fit" in plain_browser.text("#verdict h2")
    instance = {
        "uuid": "ffffffff-ffff-4fff-bfff-ffffffffffff",
        "flavor": {"vcpus": 40, "memory_mb": 90001, "extra_specs": {"hw:cpu_policy": "dedicated"}},
    }
    decision = troubled.sources.more.test_claim({"instance": instance})
    expected = [str(each) for each in decision.reasons]
    rows = shown(plain_browser, "#reasons tbody tr")
    assert [each["Reason"] for each in rows] == expected
    for number in (0, 1):
        notes = [each.text for each in plain_browser.all(f"#cell-{number} .note")]
        assert notes == [each for each in expected if f"cell {number}" in each]
        assert notes


def test_mistakes_are_named_at_their_fields(plain_browser, troubled):
    plain_browser.open(troubled.url + "page/fit")
    fill(plain_browser, vcpus="many", memory_mb=64, specs="no pair")
    plain_browser.wait(lambda: plain_browser.all("[aria-invalid]"))
    wrong = [each.get_attribute("name") for each in plain_browser.all("[aria-invalid]")]
    assert wrong == ["vcpus", "specs"]
    assert plain_browser.find("#f-vcpus").get_property("value") == "many"
    hint = plain_browser.find("#f-vcpus").get_attribute("aria-describedby")
    assert "from 1" in plain_browser.text(f"#{hint}")
    assert not plain_browser.all("#verdict")


def test_an_empty_form_has_examples_that_are_answered(plain_browser, troubled):
    for label in EXAMPLES:
        plain_browser.open(troubled.url + "page/fit")
        plain_browser.driver.find_element(By.LINK_TEXT, label).send_keys("\n")
        plain_browser.wait(lambda: plain_browser.all("#verdict"))
        assert not plain_browser.all("[aria-invalid], #mistake, #examples")


# -- timeline ----------------------------------------------------------------------------------


def test_the_timeline_shows_the_entries_of_its_document(plain_browser, troubled):
    plain_browser.open(troubled.url + "page/timeline")
    rows = shown(plain_browser, "#entries tbody tr")
    document = troubled.document("/timeline")["timeline"]
    assert [(each["Kind"], each["What"], each["Number"]) for each in rows] == [
        (each["kind"], each["subject"], str(each["number"])) for each in document
    ]
    assert {each["Kind"] for each in rows} == {"audit", "claim", "outage", "refusal"}
    lasting = next(each for each in rows if each["Kind"] == "outage")
    assert "lasts" in lasting["Lasted"] and "it does not answer" in lasting["Details"]
    refused = [each for each in rows if each["Kind"] == "refusal"]
    assert any("PCPU" in each["What"] for each in refused)
    for kind in ("outage", "refusal", "audit", "claim"):
        assert plain_browser.all(f"#lane-{kind} svg rect.kind-{kind}"), kind
    plain_browser.find('.tabs a[href*="kind=refusal"]').send_keys("\n")
    plain_browser.wait(lambda: "kind=refusal" in plain_browser.driver.current_url)
    assert {each["Kind"] for each in shown(plain_browser, "#entries tbody tr")} == {"refusal"}


# -- all of them -------------------------------------------------------------------------------


def test_every_page_fits_its_window_and_has_no_serious_problem(browser, troubled):
    claim = named(troubled, "database-2").uuid
    fit = "page/fit?vcpus={}&memory_mb=64&cpu_policy=dedicated"
    pages = [page.format(claim) for page in PAGES]
    for page in (*pages, fit.format(2), fit.format(99), fit.format("x")):
        browser.open(troubled.url + page)
        for width in (320, 3840):
            look(browser.driver, width=width)
            assert browser.run("return document.documentElement.scrollWidth") <= width, page
        for width in (1024, 1280):
            look(browser.driver, width=width)
            assert browser.broken_words() == [], page
        assert browser.violations(*OF_THE_MAP) == [], page


@pytest.mark.parametrize("page", ["page/claims?flag=drift", "page/timeline", "page/fit?vcpus=x"])
def test_dark_pages_have_no_serious_problem(browser, troubled, page):
    look(browser.driver, dark=True, width=320)
    browser.open(troubled.url + page)
    assert browser.violations() == []
