"""Browsers for the tests of pages, and a host that they show."""

from collections.abc import Iterator

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.browsing import Browser
from tests.functional.page.page_hosts import PageHost, populate
from tests.servers.chromium import Chromium, look


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """Headless Chromium; ``chromium.browser()`` opens a browser."""
    with Chromium() as server:
        yield server


@pytest.fixture(scope="session")
def _driver(chromium: Chromium) -> Iterator[WebDriver]:
    driver = chromium.browser()
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def _plain_driver(chromium: Chromium) -> Iterator[WebDriver]:
    driver = chromium.browser(script=False)
    yield driver
    driver.quit()


@pytest.fixture
def browser(_driver: WebDriver) -> Iterator[Browser]:
    """A browser of 1280 x 900 pixels. The test fails if a page logged an error on the console, for
    example a violation of its Content-Security-Policy, or asked another host for something."""
    yield from _used(_driver)


@pytest.fixture
def plain_browser(_plain_driver: WebDriver) -> Iterator[Browser]:
    """A browser without JavaScript."""
    yield from _used(_plain_driver)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageHost]:
    """A host of two sockets with guests and devices, and its pages."""
    with PageHost(tmp_path_factory.mktemp("host")) as made:
        populate(made)
        yield made


def _used(driver: WebDriver) -> Iterator[Browser]:
    look(driver)
    used = Browser(driver)
    used.clear()
    yield used
    assert used.problems() == []
    assert used.other_hosts() == set()
    driver.get("about:blank")
