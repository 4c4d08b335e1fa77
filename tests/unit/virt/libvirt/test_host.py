"""What the agent reads of the machine itself."""

import re
from pathlib import Path

import pytest

from rtagent.virt.libvirt.host import default_hugepage


@pytest.mark.parametrize("uri", ["qemu:///system", "qemu+unix:///system", "test:///default"])
def test_large_pages_have_the_kernels_default_size(uri):
    found = re.findall(r"Hugepagesize: +(\d+) kB", Path("/proc/meminfo").read_text())
    assert default_hugepage(uri) == (int(found[0]) if found else None)


def test_the_default_size_of_another_machine_is_unknown():
    assert default_hugepage("qemu+tls://cn7.example/system") is None
