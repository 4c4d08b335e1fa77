"""Hypervisors on hosts whose storage is a double."""

import contextlib

import libvirt
import pytest

from rtagent.virt.libvirt import LibvirtHypervisor
from rtagent.virt.libvirt.storage import FileSystem

GIB = 1024**3


@pytest.fixture
def connect():
    """Makes hypervisors that are stopped in the end, on a file system with 40 of 100 GiB free."""
    with contextlib.ExitStack() as stack:

        def make(uri, path="/instances", **arguments):
            disk = FileSystem(total=100 * GIB + 1, free=40 * GIB + 1)
            hypervisor = LibvirtHypervisor(uri, path, **{"probe": lambda _: disk, **arguments})
            stack.callback(hypervisor.stop)
            return hypervisor

        yield make


@pytest.fixture
def virsh(libvirtd):
    """A connection of the test's own."""
    connection = libvirt.open(libvirtd.uri)
    connection.getCapabilities()  # libvirtd looks at its emulators when it is first asked
    yield connection
    connection.close()
