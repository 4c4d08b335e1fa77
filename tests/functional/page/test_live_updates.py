"""The host map while the host changes: updates in place, lost connections."""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.functional.page.page_hosts import SMALL, PageHost


@pytest.fixture(scope="module")
def changing(tmp_path_factory):
    """A host whose claims the tests change."""
    with PageHost(tmp_path_factory.mktemp("host")) as made:
        made.run(made.pinned("stays", 4))
        made.audit()
        yield made


def names(browser):
    return [each.text for each in browser.all(".owners tbody th")]


def test_changes_appear_while_focus_scroll_and_pin_stay(browser, changing):
    browser.open(changing.url)
    browser.wait(lambda: browser.text("#connection") == "Live")
    cpu = browser.find("#map .cpu.claimed")
    cpu.send_keys(Keys.ENTER)
    browser.wait(lambda: browser.text("#pin-status") == "Pinned: stays")
    browser.run("window.scrollTo(0, 120)")
    before = browser.run("return [document.activeElement.id, window.scrollY]")

    claim = changing.pinned("comes", 2)
    browser.wait(lambda: names(browser) == ["stays", "comes"])
    (taken,) = browser.all("#map .cpu.claimed:not(.lit)")[:1]
    assert int(taken.get_attribute("id").removeprefix("cpu-")) in claim.numa_topology.taken
    changing.release(claim)
    browser.wait(lambda: names(browser) == ["stays"])

    assert browser.run("return [document.activeElement.id, window.scrollY]") == before
    assert browser.text("#pin-status") == "Pinned: stays"
    assert len(browser.all("#map .cpu.lit")) == 4
    assert not browser.all("#map .cpu.claimed:not(.lit)")
    assert browser.text("#stamp") == f"revision {changing.state.revision}"


def test_a_focused_cpu_keeps_the_focus_when_it_gets_an_owner(browser, changing):
    browser.open(changing.url)
    browser.wait(lambda: browser.text("#connection") == "Live")
    next_cpu = changing.pinned("probe", 2)
    cpu = min(next_cpu.numa_topology.taken)
    browser.wait(lambda: names(browser) == ["stays", "probe"])
    changing.release(next_cpu)
    browser.wait(lambda: names(browser) == ["stays"])
    browser.run(f"document.getElementById('cpu-{cpu}').focus()")

    claim = changing.pinned("comes", 2)
    browser.wait(lambda: names(browser) == ["stays", "comes"])

    assert browser.run("return document.activeElement.id") == f"cpu-{cpu}"
    changing.release(claim)


def test_the_pin_of_an_owner_that_ends_is_released(browser, changing):
    browser.open(changing.url)
    claim = changing.pinned("goes", 2)
    browser.wait(lambda: names(browser) == ["stays", "goes"])
    browser.find(f"#cpu-{min(claim.numa_topology.taken)}").send_keys(Keys.ENTER)
    browser.wait(lambda: browser.text("#pin-status") == "Pinned: goes")
    changing.release(claim)
    browser.wait(lambda: names(browser) == ["stays"])
    browser.wait(lambda: not browser.all(".pinned"))


def test_a_lost_connection_is_shown_and_comes_back(browser, tmp_path):
    with PageHost(tmp_path, SMALL) as host:
        browser.open(host.url)
        browser.wait(lambda: browser.text("#connection") == "Live")
        host.api.stop()
        browser.wait(lambda: "lost" in browser.text("#connection"))
        host.claim("new", 1)
        host.serve()
        browser.wait(lambda: browser.text("#connection") == "Live")
        browser.wait(lambda: names(browser) == ["new"])
        assert any("ERR_CONNECTION_REFUSED" in each for each in browser.problems())


def test_the_theme_is_remembered(browser, changing):
    browser.open(changing.url)
    button = browser.find("#theme")
    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    light = browser.run(ground)
    button.click()
    assert (button.text, browser.run(ground)) == ("Theme: light", light)
    button.click()
    dark = browser.run(ground)
    assert (button.text, dark != light) == ("Theme: dark", True)
    browser.open(changing.url)
    assert browser.run(ground) == dark
    browser.find("#theme").click()
    assert browser.run(ground) == light
