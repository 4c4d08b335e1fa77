"""``requirements.txt`` pins each library of an installation, and a changed file is refused."""

import configparser
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
FILES = ("requirements.txt", "requirements-build.txt")
#: The environment of an installation, on which some requirements depend.
PLATFORM = {"python_version": "3.11", "sys_platform": "linux", "platform_system": "Linux"}
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def pinned(name: str) -> dict[str, str]:
    """The version of each library of a file, each of which has hashes."""
    found: dict[str, str] = {}
    for line in (ROOT / name).read_text().replace("\\\n", " ").splitlines():
        if not line.startswith("#"):
            pin, *hashes = line.split()
            library, _, version = pin.partition("==")
            found[canonicalize_name(library)] = version
            assert hashes and all(map(HASH.fullmatch, hashes)), line
    return found


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.partition("==")[::2] for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def needed(requirement: Requirement, seen: set[tuple[str, str]]) -> Iterator[str]:
    """Yield the names of a requirement and of what it needs, as the installed libraries say."""
    name = canonicalize_name(requirement.name)
    yield name
    for extra in {"", *requirement.extras} - {each for of, each in seen if of == name}:
        seen.add((name, extra))
        for further in map(Requirement, distribution(name).requires or ()):
            if further.marker is None or further.marker.evaluate({**PLATFORM, "extra": extra}):
                yield from needed(further, seen)


def test_every_library_of_an_installation_is_pinned_and_no_other():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    direct = filter(None, setup["options"]["install_requires"].splitlines())
    seen: set[tuple[str, str]] = set()
    wanted = {name for each in direct for name in needed(Requirement(each), seen)}
    assert set(pinned("requirements.txt")) == wanted, "run tools/pin"
    assert set(pinned("requirements-build.txt")) == {"setuptools"}, "run tools/pin"


@pytest.mark.parametrize("name", FILES)
def test_the_versions_are_those_that_are_tested(name: str):
    tested = constraints()
    assert pinned(name) == {library: tested[library] for library in pinned(name)}, "run tools/pin"


@pytest.mark.parametrize("name", ["README.rst", "doc/source/install/index.rst", "debian/rules"])
def test_an_installation_checks_the_hashes(name: str):
    installs = [line for line in (ROOT / name).read_text().splitlines() if "requirements" in line]
    installs = [line for line in installs if "pip install" in line or "$(install)" in line]
    assert len(installs) == 2
    assert all("--require-hashes" in line for line in installs)


def test_a_file_with_another_hash_is_refused(tmp_path: Path):
    """A wheel with the name of a pinned release, and other content."""
    version = pinned("requirements.txt")["six"]
    with zipfile.ZipFile(tmp_path / f"six-{version}-py2.py3-none-any.whl", "w") as wheel:
        info = f"six-{version}.dist-info"
        wheel.writestr("six.py", "raise SystemExit('changed')\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: six\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py2-none-any\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    entries = (ROOT / "requirements.txt").read_text().replace("\\\n", " ").splitlines()
    (entry,) = [line for line in entries if line.startswith("six==")]
    wanted = tmp_path / "wanted.txt"
    for text, accepted in ((entry, False), (f"six=={version}", True)):
        wanted.write_text(text)
        given = ["--find-links", str(tmp_path), "--requirement", str(wanted)]
        done = pip("--dry-run", "--ignore-installed", "--no-index", "--no-deps", *given)
        assert (done.returncode == 0) == accepted, done.stderr
        assert accepted or "DO NOT MATCH THE HASHES" in done.stderr


def test_an_installation_with_hashes_is_complete(tmp_path: Path, long: bool):
    """As README.rst says, in a new environment; rtagent itself runs from this tree."""
    if not long:
        pytest.skip("downloads every library")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path)], check=True)
    python = str(tmp_path / "bin" / "python")
    hashes = ("--require-hashes", "--requirement")
    for file, options in ((FILES[1], ()), (FILES[0], ("--no-build-isolation",))):
        done = pip(*options, *hashes, str(ROOT / file), python=python)
        assert done.returncode == 0, done.stderr
    subprocess.run([python, "-m", "pip", "check"], check=True)
    program = "import sys, rtagent.cmd.rtagentd as daemon; sys.exit(daemon.main(['--version']))"
    subprocess.run([python, "-c", program], cwd=ROOT, check=True)


def pip(*arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
