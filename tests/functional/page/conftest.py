"""A browser for the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.functional.page.browsing import Browser
from tests.servers.chromium import Chromium, look

if TYPE_CHECKING:
    from selenium.webdriver.remote.webdriver import WebDriver


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


@pytest.fixture
def browser(_driver: WebDriver) -> Iterator[Browser]:
    """A browser of 1280 x 900 pixels. The test fails if a page logged an error on the console, for
    example a violation of its Content-Security-Policy, or asked another host for something."""
    look(_driver)
    used = Browser(_driver)
    used.clear()
    yield used
    assert used.problems() == []
    assert used.other_hosts() == set()
    _driver.get("about:blank")


@pytest.fixture
def plain_browser(browser: Browser) -> Iterator[Browser]:
    """The same browser, in which pages run no scripts. Those of a test run."""
    browser.allow_scripts(False)
    yield browser
    browser.allow_scripts(True)
