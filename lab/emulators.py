"""What libvirt asks its emulators when it is first asked itself, asked beforehand: it keeps the
answers, and in a host each of them takes long."""

from __future__ import annotations

from pathlib import Path

from lab import chroot

# libvirt asks again where the answers were another with KVM, which a host has not. It ends with the
# shell, and has seen nothing of this machine's network.
_ASK = """
set -e
mount -t proc proc /proc
[ ! -e /dev/kvm ] || mount --bind /dev/null /dev/kvm
libvirtd --daemon
virsh --connect qemu:///system capabilities >/dev/null
"""


def ask(root: Path) -> None:
    """Fill libvirt's cache. It is of the files that are there: copies of them are others to it.

    :raises BuildFailed:
    """
    chroot.inside(root, "unshare", "--net", "--pid", "--fork", "sh", "-c", _ASK)
