"""Headless Chromium, driven by a chromedriver on a free port, with profiles of its own."""

from __future__ import annotations

import base64
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.server import Server, free_port

if TYPE_CHECKING:
    from selenium.webdriver.remote.webdriver import WebDriver

DRIVER = "/usr/bin/chromedriver"
#: It needs half the CPU time of the whole browser. The script of this name on PATH starts it as
#: a child, which nobody ends.
BROWSER = "/usr/lib/chromium/chromium-headless-shell"
#: No sandbox, because tests run as root. Nothing is loaded but what a page asks for.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--lang=en",
)


class Chromium(Server):
    """Browsers of one chromedriver. Closing it ends them."""

    name = "chromium"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()

    def prepare(self) -> None:
        (self.directory / "home").mkdir()

    def command(self) -> Sequence[str]:
        return [DRIVER, f"--port={self.port}"]

    def environment(self) -> Mapping[str, str]:
        return {"HOME": str(self.directory / "home"), "TMPDIR": str(self.directory)}

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status", timeout=1):
                return True
        except OSError:
            return False

    def browser(self) -> WebDriver:
        """Open a browser, which the caller ends with ``quit()``."""
        from selenium import webdriver  # it takes long, and every test process imports this module

        options = webdriver.ChromeOptions()
        options.binary_location = BROWSER
        for argument in ARGUMENTS:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Remote(f"http://127.0.0.1:{self.port}", options=options)
        driver.set_script_timeout(100)
        look(driver)
        return driver


def look(driver: WebDriver, *, dark: bool = False, width: int = 1280, height: int = 900) -> None:
    """Set the system's colour scheme and the size of the window in CSS pixels."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def picture(driver: WebDriver, file: Path, *, whole: bool = True) -> None:
    """Write a PNG of the window, or of the whole page."""
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole})
    file.write_bytes(base64.b64decode(shot["data"]))
