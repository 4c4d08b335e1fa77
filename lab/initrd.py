"""Initial RAM disk: it loads two modules and mounts the disk, without searching for hardware."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab import chroot

# /init loads the modules that modprobe would load, in its order. klibc's programs need only their
# own library.
_MAKE = """
set -e
kernel=$(basename /lib/modules/*)
tree=$(mktemp -d)
cd "$tree"
mkdir bin dev lib root
cp /lib/klibc-*.so lib
cp /usr/lib/klibc/bin/insmod /usr/lib/klibc/bin/mount /usr/lib/klibc/bin/run-init \
    /usr/lib/klibc/bin/sh /usr/lib/klibc/bin/sleep bin
modprobe --set-version "$kernel" --show-depends --all virtio_pci virtio_blk >load
sed 's/^insmod //' load | xargs cp --parents --target-directory .
cat >init <<END
#!/bin/sh
mount -t devtmpfs dev /dev
$(awk '!seen[$0]++' load)
until mount -t ext4 /dev/vda /root; do sleep 1; done
mount -o move /dev /root/dev
exec run-init /root /sbin/init </root/dev/console >/root/dev/console 2>&1
END
chmod 755 init && rm load
find . | cpio --quiet --create --format=newc >/tmp/initrd.img
rm -r "$tree"
"""


def make(root: Path, to: Path) -> None:
    """Build it from what is installed in that root file system. :raises BuildFailed:"""
    chroot.inside(root, "sh", "-c", _MAKE)
    shutil.move(root / "tmp/initrd.img", to)
