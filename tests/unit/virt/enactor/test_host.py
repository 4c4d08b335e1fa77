"""Calls of libvirt of which the enactor reads the error."""

from typing import Any

import libvirt

from rtagent.virt.enactor.host import lookup
from tests.support.hosts import uid


class Forgetful:
    """A connection whose first error has lost its cause."""

    def __init__(self, virt: libvirt.virConnect) -> None:
        self._virt, self._lost = virt, False

    def lookupByUUIDString(self, uuid: str) -> Any:
        if self._lost:
            return self._virt.lookupByUUIDString(uuid)
        self._lost = True
        libvirt.virResetLastError()
        raise libvirt.libvirtError("virDomainLookupByUUIDString() failed")


def test_an_error_that_has_lost_its_cause_is_asked_for_again():
    assert lookup(Forgetful(libvirt.open("test:///default")), uid()) is None
