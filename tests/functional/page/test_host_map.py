"""The host map in a real browser: what it shows, and what a user can do with it."""

import pytest
from msgspec.structs import replace
from selenium.webdriver.common.keys import Keys

from rtagent.api.address import TcpAddress
from rtagent.api.server import ReadAPI
from rtagent.capacity.count import Counts
from rtagent.model.request import Flavor
from tests.functional.page.browsing import OF_COLOURS
from tests.functional.page.page_hosts import PageHost, populate
from tests.servers.chromium import look
from tests.servers.server import free_port
from tests.support.api_states import sources
from tests.support.hosts import PINNED, PINNING
from tests.support.hosts import host as host_state

#: The pixels of each text beside a device that do not fit into its place.
HIDDEN = """
const right = (element) => element.getBoundingClientRect().right;
return [...document.querySelectorAll(".function-about > *")].map((each) => [
  each.textContent,
  Math.max(each.scrollWidth - each.clientWidth, right(each) - right(each.closest(".bus"))),
]);
"""


#: The names of the flavors, and how many more fit.
FITS = """
return [...document.querySelectorAll("#fits .fit-name")].map(
  (each) => [...each.children].map((part) => part.textContent)
);
"""
#: The parts of the map that are marked as stranded.
STRANDED = """
const marked = [...document.querySelectorAll("#map .stranded")];
return marked.map((part) => part.id || part.closest(".cell").id);
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A host of two sockets with guests and devices, and its pages."""
    with PageHost(tmp_path_factory.mktemp("host")) as made:
        populate(made)
        yield made


# -- the frame ---------------------------------------------------------------------------------


def test_the_first_page_loads_its_style_and_script(browser, host):
    browser.open(host.url)
    assert host.state.node.hypervisor_hostname in browser.driver.title
    assert browser.run("return document.documentElement.classList.contains('js')")
    assert browser.run("return document.styleSheets.length") >= 1
    browser.wait(lambda: browser.text("#connection") == "Live")


def test_without_script_the_first_page_is_there(plain_browser, host):
    plain_browser.open(host.url)
    assert "Host map" in plain_browser.text("h1")
    assert not plain_browser.find("#theme").is_displayed()


# -- what a user does with it ------------------------------------------------------------------


def test_focus_shows_a_claim_and_enter_pins_its_owner(browser, host):
    browser.open(host.url)
    browser.wait(lambda: browser.text("#connection") == "Live")
    browser.find("#map .cpu.claimed").send_keys(Keys.ARROW_RIGHT)
    cpu = browser.driver.switch_to.active_element
    name = cpu.get_attribute("aria-label").partition(": ")[2].partition(",")[0]
    assert name in browser.text("#inspector")
    cpu.send_keys(Keys.ENTER)
    browser.wait(lambda: browser.text("#pin-status") == f"Pinned: {name}")
    lit = browser.run("return [...document.querySelectorAll('#map .lit')].map(e => e.id)")
    owner = host.document("/numa")["numa"][0]
    cpus = [
        f"cpu-{each['id']}"
        for cell in owner["cells"]
        for core in cell["cores"]
        for each in core
        if each["name"] == name
    ]
    assert {each for each in lit if each.startswith("cpu-")} == set(cpus)
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.wait(lambda: not browser.all(".lit") and not browser.text("#pin-status"))


def test_arrow_keys_reach_every_unit(browser, host):
    browser.open(host.url)
    units = browser.run(
        "return [...document.querySelectorAll('#map a.cpu, #map a.unit')].map(e => e.id)"
    )
    assert browser.run("return document.querySelectorAll('#map a[tabindex=\"0\"]').length") == 1
    browser.find("#map a.cpu").send_keys(Keys.HOME)
    reached = browser.run(
        """
        const ids = [document.activeElement.id];
        for (let n = 1; n < arguments[0]; n += 1) {
          const key = new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true});
          document.activeElement.dispatchEvent(key);
          ids.push(document.activeElement.id);
        }
        return ids;
        """,
        len(units),
    )
    assert reached == units
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_UP)
    assert browser.run("return document.activeElement.id") != reached[-1]


def test_what_still_fits_is_beside_the_map_and_what_is_stranded_on_it(browser, host):
    browser.open(host.url)
    (shown,) = host.document("/capacity")["capacity"]
    assert browser.run(FITS) == [[row["name"], str(row["room"])] for row in shown["flavors"]]
    names = [name for part in shown["stranded"] for name in part["names"]]
    assert browser.run(STRANDED) == [f"dev-{name}" for name in names]
    assert names


@pytest.fixture(scope="module")
def narrow():
    """The page of a host on which CPUs and pages are stranded."""
    large = Flavor(name="large", vcpus=4, memory_mb=1024, extra_specs=PINNED)
    shown = replace(sources(host_state(numa=PINNING)), counts=Counts(lambda: (large,)))
    api = ReadAPI(TcpAddress(free_port()), shown, patience=60)
    api.start()
    yield f"http://{api.address}/"
    api.stop()


def test_stranded_cpus_and_pages_are_shown_without_a_serious_problem(browser, narrow):
    browser.open(narrow)
    assert browser.run(STRANDED) == ["cpu-2", "cpu-3", "cell-0", "cell-0", "cell-1"]
    assert browser.violations() == []
    look(browser.driver, dark=True)
    assert browser.violations(rules=OF_COLOURS) == []


@pytest.mark.parametrize(("dark", "width"), [(True, 320), (False, 1280)])
def test_axe_finds_nothing_serious(browser, host, dark, width):
    look(browser.driver, dark=dark, width=width)
    browser.open(host.url)
    assert browser.violations() == []


def test_the_map_fits_its_window_and_cuts_no_name_of_an_owner_of_a_device(browser, host):
    browser.open(host.url)
    for width in (320, 760, 1280, 3840):
        look(browser.driver, width=width)
        assert browser.run("return document.documentElement.scrollWidth") <= width
        names = browser.run(HIDDEN)
        assert {"render-1", "analytics-1"} <= {text for text, _ in names}
        assert width < 1280 or [text for text, hidden in names if hidden > 0] == []


def test_without_script_the_map_has_links_to_a_table(plain_browser, host):
    plain_browser.open(host.url)
    cpu = plain_browser.find("#map .cpu.claimed")
    name = cpu.get_attribute("aria-label").partition(": ")[2].partition(",")[0]
    cpu.click()
    row = plain_browser.find("tr:target")
    assert row.find_element("css selector", "th").text == name
    assert not plain_browser.all("#inspector:not(.js-only)")


def test_a_name_links_the_page_of_its_claim(browser, host):
    browser.open(host.url)
    link = browser.find(".owners tbody th a")
    name = link.text
    link.click()
    browser.wait(lambda: name in browser.text("h1"))
    assert "/page/claims/" in browser.driver.current_url


# -- names that their writers chose to harm the reader -------------------------------------------

MARKUP = "<script>document.title='x'</script><img src=x onerror=alert(1)>\"'&"
CONTROLS = "a\u0007b\u001b[31mc\u007f"
BIDI = "\u202egnp.exe\u2066\u200b"
BREAKS = "one\ntwo\u2028three"
ATTRIBUTE = '" onfocus="alert(1)" style="color:red'
TEMPLATE = "{{ 7 * 7 }}{% include 'base.html' %}"
NAMES = (MARKUP, CONTROLS, BIDI, BREAKS, ATTRIBUTE, TEMPLATE)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    with PageHost(tmp_path_factory.mktemp("host")) as made:
        for name in NAMES:
            made.pinned(name, 2)
        made.foreign("/".join(["x" * 1000] * 100).replace("/", "-"), 1)
        made.audit()
        yield made


def test_hostile_names_stay_text(browser, hostile):
    browser.open(hostile.url)
    browser.wait(lambda: browser.text("#connection") == "Live")
    shown = [each.get_property("textContent") for each in browser.all(".owners tbody th")]
    assert shown[0] == MARKUP
    assert shown[1] == r"a\x07b\x1b[31mc\x7f"
    assert shown[2] == r"\u202egnp.exe\u2066\u200b"
    assert shown[4:6] == [ATTRIBUTE, TEMPLATE]
    assert "Host map" in browser.driver.title
    assert not browser.all("main script, main img, [onfocus], main [style]")
    # Escapes of characters that are shown as they are would hide the difference to a real name.
    for cpu in browser.all("#map .cpu.claimed"):
        assert "\u202e" not in cpu.get_attribute("aria-label")


def test_a_name_of_100_kb_is_shortened(browser, hostile):
    browser.open(hostile.url)
    (orphan,) = hostile.document("/orphans")["orphans"]
    assert len(orphan["name"]) > 90_000
    shown = browser.all(".owners tbody th")[-1].get_property("textContent")
    assert (len(shown), shown[-1]) == (1001, "…")
    assert browser.run("return document.documentElement.scrollWidth") <= 1280
    assert len(hostile.sources.answer("/").body) < 200_000


def test_a_pinned_hostile_name_stays_text(browser, hostile):
    browser.open(hostile.url)
    browser.run("const cpu = document.querySelector('#map .cpu.claimed'); cpu.focus(); cpu.click()")
    assert browser.all("#inspector h2")
    assert not browser.all("#inspector script, #inspector img, #inspector [style]")
