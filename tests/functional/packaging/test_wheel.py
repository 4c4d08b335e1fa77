"""The wheel has the whole product, with the migrations, and the files of ``etc``."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ("README.rst", "etc", "migrations", "pyproject.toml", "rtagent", "setup.cfg")

FIND = """
from importlib.resources import files
import rtagent, rtagent.migrations
print(rtagent.__file__)
print(files("rtagent.migrations"))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the wheel of this tree is installed; built from a copy of the tree."""
    work = tmp_path_factory.mktemp("wheel")
    tree, site = work / "tree", work / "site"
    tree.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, tree / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(source, tree / name)
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(work), str(tree))
    (wheel,) = work.glob("*.whl")
    pip("install", "--target", str(site), str(wheel))
    return site


def pip(command: str, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", command, "--quiet", "--no-deps", "--no-index", *arguments],
        check=True,
        stdin=subprocess.DEVNULL,
    )


def files_in(folder: Path) -> set[str]:
    """The files below a folder, links followed, but for what Python compiles."""
    return {
        str(Path(top, name).relative_to(folder))
        for top, _, names in os.walk(folder, followlinks=True)
        for name in names
        if not name.endswith(".pyc")
    }


def test_the_wheel_has_every_file_of_the_product(installed):
    assert files_in(installed / "rtagent") == files_in(ROOT / "rtagent")


def test_the_files_of_etc_are_installed_below_share(installed):
    assert files_in(installed / "share/rtagent") == files_in(ROOT / "etc/rtagent")


def test_the_migrations_of_an_installed_copy_are_found(installed, tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", FIND],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )

    package, migrations = result.stdout.splitlines()
    assert package == str(installed / "rtagent/__init__.py")
    assert migrations == str(installed / "rtagent/migrations")
    assert files_in(Path(migrations)) == files_in(ROOT / "migrations")


def rtagent(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command of the installed copy."""
    main = "import sys, rtagent.cmd.rtagent as command; sys.exit(command.main())"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", main, *arguments],
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_installed_copy_migrates_a_database_online_and_prints_the_statements(
    installed, tmp_path
):
    config = tmp_path / "rtagent.conf"
    config.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    named = ("--config-file", str(config))
    offline = rtagent(installed, *named, "db", "sync", "--sql")
    assert offline.returncode == 0, offline.stderr
    assert "CREATE TABLE claim_units" in offline.stdout
    for command in (("db", "sync"), ("db", "check")):
        done = rtagent(installed, *named, *command)
        assert done.returncode == 0, done.stderr
