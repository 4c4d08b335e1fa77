"""Disk image of a lab host: the root file system with the agent of this checkout, installed as the
documentation says."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from oslo_concurrency import lockutils

from lab import chroot, emulators, initrd
from lab.digest import digest
from lab.places import LAB, ROOT
from lab.root import VENV, base
from rtagent.model.base import Value

#: Inputs of the wheel.
SOURCES = ("README.rst", "etc", "migrations", "pyproject.toml", "rtagent", "setup.cfg")
_INPUTS = (*SOURCES, "lab/emulators.py", "lab/image.py", "lab/initrd.py")
ETC = {
    "rtagent.service": "/etc/systemd/system/rtagent.service",
    "rtagent.sysusers": "/usr/lib/sysusers.d/rtagent.conf",
    "rtagent.tmpfiles": "/usr/lib/tmpfiles.d/rtagent.conf",
}
# QEMU's network; a DHCP client would get the same address.
_NETWORK = """\
[Unit]
BindsTo=sys-subsystem-net-devices-eth0.device
After=sys-subsystem-net-devices-eth0.device
Before=network.target network-online.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=ip address add 10.0.2.15/24 dev eth0
ExecStart=ip link set eth0 up

[Install]
WantedBy=network-online.target
"""
_FILES = [
    ("/etc/fstab", "/dev/vda / ext4 defaults 0 1\n"),
    # Written at the first boot, so that no two hosts have the same id.
    ("/etc/machine-id", ""),
    ("/etc/modules-load.d/lab.conf", "acpi_cpufreq\ncpufreq_powersave\nvfio_pci\n"),
    ("/etc/systemd/journald.conf.d/lab.conf", "[Journal]\nStorage=volatile\n"),
    # A network device may appear late on a busy machine.
    ("/etc/systemd/system.conf.d/lab.conf", "[Manager]\nDefaultDeviceTimeoutSec=10min\n"),
    ("/etc/systemd/system/lab-network.service", _NETWORK),
]
#: Units that take time at a start and are of no use on a lab host.
_MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@.service",
    "libvirt-guests.service",
    "modprobe@.service",
    "proc-sys-fs-binfmt_misc.automount",
    "serial-getty@.service",
    "systemd-binfmt.service",
    "systemd-logind.service",
    "systemd-random-seed.service",
    "systemd-sysusers.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
    "systemd-user-sessions.service",
)
SIZE = "4G"


class Image(Value, frozen=True, kw_only=True):
    """An image. :ivar disk: a raw disk, which must not be changed."""

    disk: Path
    kernel: Path
    initrd: Path


def build() -> Image:
    """Return the image of this checkout, built if there is none. :raises BuildFailed:"""
    LAB.mkdir(exist_ok=True)
    with lockutils.external_lock("build", lock_path=str(LAB)):
        return _build()


def _build() -> Image:
    root = base()
    here = LAB / f"image-{digest(_INPUTS, root.name)}"
    if not here.exists():
        fresh = LAB / "image.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        _fill(fresh, root)
        for old in LAB.glob("image-*"):
            shutil.rmtree(old)
        fresh.rename(here)
    return Image(disk=here / "disk.raw", kernel=here / "vmlinuz", initrd=here / "initrd.img")


def _fill(image: Path, base_root: Path) -> None:
    root = image / "root"
    chroot.run("cp", "-a", "--reflink=auto", str(base_root), str(root))
    _install_agent(root)
    chroot.write(root, _FILES)
    chroot.inside(root, "systemctl", "enable", "lab-network", "rtagent")
    # Otherwise systemd would use D-Bus's id, which is the same on all hosts.
    (root / "var/lib/dbus/machine-id").unlink()
    chroot.inside(root, "systemctl", "mask", *_MASKED)
    emulators.fill_cache(root)
    initrd.make(root, image / "initrd.img")
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    shutil.copy(kernel, image / "vmlinuz")
    chroot.run("mke2fs", "-q", "-t", "ext4", "-d", str(root), str(image / "disk.raw"), SIZE)
    shutil.rmtree(root)


def _install_agent(root: Path) -> None:
    """Install the agent with the steps of the documentation."""
    wheel = _wheel(root / "tmp")
    pip = (f"{VENV}/bin/pip", "install", "--no-deps", "--no-index", "--disable-pip-version-check")
    chroot.inside(root, *pip, f"/tmp/{wheel.name}")
    for program in ("rtagent", "rtagentd"):
        (root / "usr/bin" / program).symlink_to(f"{VENV}/bin/{program}")
    chroot.write(
        root, [(to, (ROOT / "etc/rtagent" / name).read_text()) for name, to in ETC.items()]
    )
    chroot.inside(root, "systemd-sysusers")
    chroot.inside(root, "systemd-tmpfiles", "--create", "rtagent.conf")


def _wheel(directory: Path) -> Path:
    """Build the wheel from a copy, because setuptools writes into its source tree."""
    with tempfile.TemporaryDirectory() as copy:
        for name in SOURCES:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, Path(copy, name), symlinks=True)
            else:
                shutil.copy(source, copy)
        pip = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"]
        chroot.run(*pip, "--no-index", "--wheel-dir", str(directory), copy)
    (wheel,) = directory.glob("rtagent-*.whl")
    return wheel
