"""Root file system without the agent: Debian, libvirt, QEMU, and the agent's libraries."""

from __future__ import annotations

import configparser
import shutil
from pathlib import Path

from lab import chroot
from lab.digest import digest
from lab.places import LAB, ROOT

MIRROR = "http://deb.debian.org"
SUITE = "bookworm"
_SOURCES = f"""\
deb {MIRROR}/debian {SUITE} main
deb {MIRROR}/debian {SUITE}-updates main
deb {MIRROR}/debian-security {SUITE}-security main
"""
_FILES = [
    ("/etc/apt/sources.list", _SOURCES),
    ("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n"),
    # The kernel's package builds an initial RAM disk that is not used (`lab.initrd`).
    ("/etc/initramfs-tools/conf.d/lab", "MODULES=list\n"),
]
VENV = "/opt/rtagent"

_INPUTS = ("constraints.txt", "lab/chroot.py", "lab/packages.txt", "lab/root.py")


def base() -> Path:
    """Return the root file system, built if there is none of the current inputs.

    :raises BuildFailed:
    """
    here = LAB / f"base-{digest(_INPUTS, _libraries())}"
    if not here.exists():
        fresh = LAB / "base.new"
        shutil.rmtree(fresh, ignore_errors=True)
        _install_packages(fresh)
        _install_libraries(fresh)
        for old in LAB.glob("base-*"):
            shutil.rmtree(old)
        fresh.rename(here)
    return here


def _install_packages(root: Path) -> None:
    certificates = "--include=ca-certificates"
    chroot.run(
        "debootstrap", "--variant=minbase", certificates, SUITE, str(root), f"{MIRROR}/debian"
    )
    chroot.write(root, _FILES)
    (root / "usr/sbin/policy-rc.d").chmod(0o755)
    chroot.inside(root, "apt-get", "update")
    chroot.inside(root, "apt-get", "install", "-y", "--no-install-recommends", *_packages())
    chroot.inside(root, "apt-get", "clean")
    (root / "usr/sbin/policy-rc.d").unlink()


def _install_libraries(root: Path) -> None:
    constraints = (ROOT / "constraints.txt").read_text()
    chroot.write(root, [("/tmp/constraints.txt", constraints), ("/tmp/wanted.txt", _libraries())])
    chroot.inside(root, "python3", "-m", "venv", VENV)
    pip = (f"{VENV}/bin/pip", "install", "--no-cache-dir", "--disable-pip-version-check")
    chroot.inside(root, *pip, "-c", "/tmp/constraints.txt", "-r", "/tmp/wanted.txt")


def _packages() -> list[str]:
    lines = (ROOT / "lab/packages.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def _libraries() -> str:
    """Return the requirements of the agent's package, one per line."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup["options"]["install_requires"]
