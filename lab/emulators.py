"""Fill libvirt's cache of emulator capabilities while the image is built.

libvirt queries each emulator at its first use and caches the result. On an emulated host each of
these queries takes long.
"""

from __future__ import annotations

from pathlib import Path

from lab import chroot

# The cache is invalid if the availability of KVM differs, and a lab host has no KVM. The separate
# namespaces end libvirtd with the shell and hide this machine's network from it.
_QUERY = """
set -e
mount -t proc proc /proc
[ ! -e /dev/kvm ] || mount --bind /dev/null /dev/kvm
libvirtd --daemon
virsh --connect qemu:///system capabilities >/dev/null
"""


def fill_cache(root: Path) -> None:
    """Fill libvirt's cache. It is bound to these very files: copies invalidate it.

    :raises BuildFailed:
    """
    chroot.inside(root, "unshare", "--net", "--pid", "--fork", "sh", "-c", _QUERY)
