"""Names that their writers chose to harm the reader of a page."""

import pytest

from tests.functional.page.page_hosts import PageHost

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
