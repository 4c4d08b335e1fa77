"""python -m tests.functional.page.pictures

Makes the pictures of the documentation anew: the host of the demonstration, in a real browser.
"""

import tempfile
from pathlib import Path

from demo.environment import MACHINE
from tests.functional.page.browsing import Browser
from tests.functional.page.page_hosts import PageHost
from tests.servers.chromium import Chromium, look, picture

FOLDER = Path(__file__).parents[3] / "doc" / "source" / "_static"
WIDTH, HEIGHT = 1280, 900


def settle(host: PageHost) -> None:
    """Claim some of everything that the host of the demonstration has."""
    for number in (1, 2):
        host.run(host.pinned(f"database-{number}", 4, 12288))
    for number in (1, 2, 3):
        host.run(host.claim(f"web-{number}", 2, 2048))
    host.run(host.pinned("render-1", 4, 8192, pci_passthrough__alias="gpu:1"))
    host.run(host.pinned("router-1", 2, 2048, pci_passthrough__alias="vf:3"))
    host.run(host.pinned("realtime-1", 2, 4096, hw__cpu_thread_policy="isolate"))
    host.run(host.claim("desktop-1", 2, 4096, resources__VGPU="1"))
    host.pinned("build-1", 2, 2048)
    host.foreign("left-behind", 2, 2048)
    host.audit()


def take(chromium: Chromium, directory: Path, folder: Path) -> None:
    """Write the pictures to a folder."""
    driver = chromium.browser()
    browser = Browser(driver)
    try:
        with PageHost(directory, MACHINE) as host:
            settle(host)
            for name, dark in (("light", False), ("dark", True)):
                look(driver, dark=dark, width=WIDTH, height=HEIGHT)
                browser.open(host.url)
                browser.wait(lambda: browser.text("#connection") == "Live")
                if dark:
                    browser.run("document.querySelector('#map .cpu.claimed').click()")
                    browser.wait(lambda: browser.text("#pin-status"))
                    browser.run("return document.getAnimations().forEach(each => each.finish())")
                picture(driver, folder / f"host-map-{name}.png", whole=False)
    finally:
        driver.quit()


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    with Chromium() as chromium, tempfile.TemporaryDirectory() as directory:
        take(chromium, Path(directory), FOLDER)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
