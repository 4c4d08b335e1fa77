"""What the Debian package is made of. ``tests/lab/test_package.py`` installs it."""

import configparser
import fnmatch
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DEBIAN = ROOT / "debian"


def lines(name: str) -> list[list[str]]:
    """The lines of a file of debhelper, as words."""
    return [line.split() for line in (DEBIAN / f"rtagent.{name}").read_text().splitlines()]


#: In the environment of nova-compute, and of no use in that of the package.
OF_NOVA = "rtagent-nova-compute"


def programs() -> list[str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    scripts = setup["options.entry_points"]["console_scripts"].strip().splitlines()
    names = [script.partition(" ")[0] for script in scripts]
    return [name for name in names if name != OF_NOVA]


def test_every_program_is_on_the_path():
    links = dict(lines("links"))
    for program in programs():
        assert links[f"usr/lib/rtagent/bin/{program}"] == f"usr/bin/{program}"


def test_every_unit_is_installed_and_starts_an_installed_program():
    (pattern,) = [source for source, to in lines("install") if to == "usr/lib/systemd/system"]
    units = list(ROOT.glob("etc/rtagent/*.service"))
    assert len(units) == 2
    for unit in units:
        assert fnmatch.fnmatch(str(unit.relative_to(ROOT)), pattern)
        (started,) = [
            line.removeprefix("ExecStart=/usr/bin/")
            for line in unit.read_text().splitlines()
            if line.startswith("ExecStart=")
        ]
        assert started in programs()
        for script in ("prerm", "postinst"):
            assert unit.stem in (DEBIAN / f"rtagent.{script}").read_text()


def test_nothing_is_installed_where_a_link_is_made():
    """debhelper makes no link in place of a directory, and the package is not built."""
    made = {to for _, to in lines("links")}
    for source, to in lines("install"):
        installed = Path(to, Path(source).name)
        assert not made & {str(each) for each in (installed, *installed.parents)}


@pytest.mark.parametrize("script", ["prerm", "postinst", "postrm"])
def test_maintainer_scripts_are_shell_and_stop_at_errors(script: str):
    path = DEBIAN / f"rtagent.{script}"
    subprocess.run(["sh", "-n", str(path)], check=True)
    text = path.read_text()
    assert "\nset -e\n" in text and "#DEBHELPER#" in text
