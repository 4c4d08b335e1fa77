"""What a user does with a page, and what the browser notes about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from selenium.webdriver.remote.webdriver import WebDriver
    from selenium.webdriver.remote.webelement import WebElement

#: Seconds that a test waits: machines stand still now and then.
PATIENCE = 100.0

T = TypeVar("T")
#: axe-core. The package that brings it is not imported, because it would need Playwright.
AXE = Path(
    str(distribution("axe-playwright-python").locate_file("axe_playwright_python/axe.min.js"))
)


#: What other pages than the host map have of it: one test examines the map.
OF_THE_MAP = ("#map .cpu:not(.would-be)", "#map .unit:not(.would-be)")

#: The rules of axe-core that depend on colours: the only ones with another result in a dark page.
OF_COLOURS = ("color-contrast", "link-in-text-block")

#: The words of tables that are on several lines, with their columns. Longer words may be.
BROKEN_WORDS = r"""
const broken = [];
for (const cell of document.querySelectorAll(".cards tbody td, .cards tbody th")) {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    for (const word of text.data.matchAll(/(?<!\w)\w{2,26}(?!\w)/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((line) => line.top));
      if (lines.size > 1) broken.push(`${cell.dataset.label}: ${word[0]}`);
    }
  }
}
return broken;
"""


class Browser:
    """:ivar driver: of selenium."""

    def __init__(self, driver: WebDriver) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get(url)

    def allow_scripts(self, allowed: bool) -> None:
        """Let the pages that are opened from now on run scripts, or not."""
        command = "Emulation.setScriptExecutionDisabled"
        self.driver.execute_cdp_cmd(command, {"value": not allowed})

    def find(self, selector: str) -> WebElement:
        """Return the first element of a CSS selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.find(selector).text

    def run(self, script: str, *arguments: Any) -> Any:
        """Return the result of a script, which ``return``s it."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: Callable[[], T]) -> T:
        """Return the condition's first result that is true."""
        from selenium.webdriver.support.wait import WebDriverWait

        waiting = WebDriverWait(
            self.driver,
            PATIENCE,
            poll_frequency=0.05,
            ignored_exceptions=[StaleElementReferenceException],
        )
        result: T = waiting.until(lambda _: condition())
        return result

    def clear(self) -> None:
        """Forget what the browser noted so far."""
        self._log("browser")
        self._log("performance")

    def problems(self) -> list[str]:
        """Return the errors and warnings that the console got since the last call."""
        entries = self._log("browser")
        return [each["message"] for each in entries if each["level"] in ("SEVERE", "WARNING")]

    def other_hosts(self) -> set[str]:
        """Return the hosts but this one that were asked for something since the last call."""
        hosts = set()
        for entry in self._log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = urlsplit(message["params"]["request"]["url"])
                if url.scheme not in ("data", "about"):
                    hosts.add(url.hostname)
        return hosts - {"127.0.0.1"}

    def broken_words(self) -> list[str]:
        """Return the words of tables that are broken although they are short."""
        broken: list[str] = self.run(BROKEN_WORDS)
        return broken

    def violations(self, *left_out: str, rules: Sequence[str] = ()) -> list[str]:
        """Return the serious problems that axe-core finds in the page.

        :param left_out: CSS selectors of what is not examined: the contrast of each text takes
            time.
        :param rules: the only ones that are applied, if there are some.
        """
        if self.run("return !window.axe"):
            self.run(AXE.read_text())
        found = self.driver.execute_async_script(
            "const [leftOut, rules, done] = arguments;"
            "const options = {resultTypes: ['violations'], preload: false};"
            "if (rules.length) options.runOnly = rules;"
            "axe.run({exclude: leftOut}, options).then(r => done(r.violations));",
            left_out,
            rules,
        )
        return [
            f"{each['id']} ({each['impact']}): {each['help']}: {node['html'][:200]}"
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.driver.execute("getLog", {"type": kind})["value"]
        return entries
