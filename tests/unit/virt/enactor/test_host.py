"""Hosts behind libvirt, which is a double here."""

import threading
import time
from typing import Any

import libvirt
import pytest
from msgspec.structs import replace

from rtagent.errors import HypervisorUnavailable
from rtagent.virt.enactor.host import HostConnection, LibvirtHost, OrderRefused, lookup, unchecked
from rtagent.virt.enactor.migration import LiveMigration
from rtagent.virt.libvirt.document import parse
from tests.support.guests import VGPU, guest_domain
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


def test_a_connection_is_closed_after_the_calls_that_are_under_way():
    connection = HostConnection("test:///default", 5.0)

    def ask(virt):
        connection.close()  # as when libvirt reports the loss
        time.sleep(0.3)
        return virt.getInfo()

    assert connection.run(ask)


def test_a_connection_is_closed_after_a_migration_that_is_under_way():
    connection = HostConnection("test:///default", 5.0)

    def migrate(virt):
        connection.close()
        for thread in threading.enumerate():
            if thread.name == "libvirt-close":
                thread.join(1)
        return virt.isAlive()

    assert connection.run_long(migrate) == 1


def test_an_order_whose_connection_is_closed_meanwhile_is_not_refused():
    connection = HostConnection("test:///default", 5.0)

    def ask(virt):
        connection.close()
        return virt.lookupByName("nobody")

    with pytest.raises(HypervisorUnavailable, match="not found"):
        connection.run_long(ask)
    assert connection.run(lambda virt: virt.isAlive())
    connection.close()


def refusal(code=libvirt.VIR_ERR_OPERATION_FAILED):
    error = libvirt.libvirtError("refused")
    error.err = (code, libvirt.VIR_FROM_QEMU, "refused", 2, "", None, None, 0, 0)
    return error


class Device:
    def __init__(self, virt, name):
        self._virt, self._name = virt, name

    def name(self):
        return self._name

    def destroy(self):
        self._virt.mdevs.remove(self._name)


class Running:
    """A running domain, of which libvirt says that it cannot leave. :ivar left: is called then."""

    def __init__(self, domain):
        self._domain = domain
        self.left = lambda: None

    def isActive(self):
        return True

    def jobInfo(self):
        return [libvirt.VIR_DOMAIN_JOB_NONE]

    def metadata(self, *_):
        return f"<server claim='{self._domain.claim.uuid}'/>"

    def XMLDesc(self, _):
        return f"<domain><uuid>{self._domain.uuid}</uuid><devices/></domain>"

    def migrateToURI3(self, *_):
        self.left()
        raise refusal()


class Virt:
    """libvirt of one host, and the connection to it. :ivar most: how many devices it creates."""

    def __init__(self, *domains, mdevs=(), most=9):
        self.domains = {domain.uuid: Running(domain) for domain in domains}
        self.mdevs, self.most = list(mdevs), most

    def run(self, call):
        return call(self)

    run_long = run

    def lookupByUUIDString(self, uuid):
        if uuid not in self.domains:
            raise refusal(libvirt.VIR_ERR_NO_DOMAIN)
        return self.domains[uuid]

    def listAllDevices(self, _):
        return [Device(self, name) for name in self.mdevs]

    def nodeDeviceCreateXML(self, document):
        if len(self.mdevs) >= self.most:
            raise refusal()
        self.mdevs.append(parse(document).findtext("name"))


@pytest.mark.parametrize("most", [9, 2], ids=["by the migration", "by the second device"])
def test_refused_migration_leaves_no_mediated_device_at_the_destination(most):
    other = replace(VGPU, identifier=VGPU.identifier.replace("nvidia-222/0", "nvidia-222/1"))
    domain = guest_domain(resources=(VGPU, other))
    source, dest = Virt(domain), Virt(mdevs=["mdev_of_another_guest"], most=most)
    here, there = (LibvirtHost(virt, 0.0, None) for virt in (source, dest))
    with pytest.raises(libvirt.libvirtError):
        LiveMigration(here, there, "qemu:///", 60.0).run(domain, [domain.claim.uuid], unchecked)
    assert dest.mdevs == ["mdev_of_another_guest"]


def test_a_guest_that_has_arrived_although_libvirt_failed_keeps_its_mediated_device():
    domain = guest_domain(resources=(VGPU,))
    source, dest = Virt(domain), Virt()
    running = source.domains[domain.uuid]
    running.left = lambda: dest.domains.update({domain.uuid: source.domains.pop(domain.uuid)})
    here, there = (LibvirtHost(virt, 0.0, None) for virt in (source, dest))
    LiveMigration(here, there, "qemu:///", 60.0).run(domain, [domain.claim.uuid], unchecked)
    assert len(dest.mdevs) == 1


def test_repeated_migration_of_a_guest_that_runs_no_more_leaves_none_either():
    domain = guest_domain(resources=(VGPU,))
    source, dest = Virt(), Virt(mdevs=["mdev_of_another_guest"])
    here, there = (LibvirtHost(virt, 0.0, None) for virt in (source, dest))
    there.create_mdevs(domain.node_devices, unchecked)  # by an earlier call, which was killed
    with pytest.raises(OrderRefused):
        LiveMigration(here, there, "qemu:///", 60.0).run(domain, [domain.claim.uuid], unchecked)
    assert dest.mdevs == ["mdev_of_another_guest"]
