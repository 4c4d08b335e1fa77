"""The frame of all pages, in a real browser."""


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
