"""Disk with Nova's virtual environment, which lab hosts mount at `MOUNTED` and only read.

It is made of the environment of tests/nova. The package rtagent in it is a link to the one that is
installed on the host, so that a change of the agent makes no new disk.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from oslo_concurrency import lockutils

from lab import chroot
from lab.digest import digest
from lab.places import LAB, ROOT
from lab.root import VENV

MOUNTED = "/srv/nova"
SIZE = "3G"

_SOURCE = ROOT / ".venv-nova"
#: What `tools/test` writes when the environment is complete: what it was made of.
_STAMP = _SOURCE / ".installed"
_PROGRAMS = ("privsep-helper", "rtagent-nova-compute")
_PACKAGES = "lib/python3.11/site-packages"


def build() -> Path:
    """Return the disk's image, built if there is none of the current environment.

    :raises BuildFailed: or there is no such environment.
    """
    if not _STAMP.exists():
        raise chroot.BuildFailed(f"there is no {_SOURCE}; remedy: tools/test --lab --install-only")
    LAB.mkdir(exist_ok=True)
    with lockutils.external_lock("build-nova", lock_path=str(LAB)):
        return _build()


def _build() -> Path:
    here = LAB / f"nova-{digest(['lab/nova_environment.py'], _STAMP.read_text())}.raw"
    if not here.exists():
        tree, fresh = LAB / "nova.new", LAB / "nova.raw.new"
        shutil.rmtree(tree, ignore_errors=True)
        fresh.unlink(missing_ok=True)
        _fill(tree)
        # Many of the files are small.
        chroot.run("mke2fs", "-q", "-t", "ext4", "-i", "8192", "-d", str(tree), str(fresh), SIZE)
        shutil.rmtree(tree)
        for old in LAB.glob("nova-*.raw"):
            old.unlink()
        fresh.rename(here)
    return here


def _fill(tree: Path) -> None:
    packages = tree / _PACKAGES
    packages.parent.mkdir(parents=True)
    # With the times of the files, or else their bytecode would be out of date.
    chroot.run("cp", "-a", "--reflink=auto", str(_SOURCE / _PACKAGES), str(packages))
    for link_to_checkout in packages.glob("__editable__*"):
        link_to_checkout.unlink()
    (packages / "rtagent").symlink_to(f"{VENV}/{_PACKAGES}/rtagent")
    chroot.write(tree, [("pyvenv.cfg", "home = /usr/bin\n")])
    (tree / "bin").mkdir()
    (tree / "bin/python").symlink_to("/usr/bin/python3")
    for name in _PROGRAMS:
        _, *lines = (_SOURCE / "bin" / name).read_text().splitlines()
        program = tree / "bin" / name
        program.write_text("\n".join((f"#!{MOUNTED}/bin/python", *lines, "")))
        program.chmod(0o755)
