"""CPU power management with Linux's own online files and governors."""

import contextlib
from collections.abc import Iterator

import pytest

from lab.places import ROOT
from rtagent.errors import HypervisorUnavailable
from rtagent.model.cpuset import parse_cpu_spec
from tests.lab.guests import create
from tests.lab.rack import CONTEXT, PATIENCE, Rack, Served, wait_until
from tests.support.hosts import uid

#: The profile's.
SHARED, DEDICATED = {0, 1}, {2, 3, 4, 5, 6, 7}
DROP_IN = (ROOT / "etc/rtagent/rtagent-cpu-power.conf").read_text()
ALL_ON = "for cpu in /sys/devices/system/cpu/cpu*/online; do echo 1 >$cpu; done"
UNIT = "/run/systemd/system/rtagent.service.d/cpu-power.conf"


@contextlib.contextmanager
def managed(host: Served, **options: str) -> Iterator[None]:
    """Configure the agent to manage the power of its dedicated CPUs."""
    managing = host.configured("libvirt", cpu_power_management=True, **options)
    try:
        with host.file(UNIT, DROP_IN), managing:
            host.output("systemctl", "daemon-reload")
            restart(host)
            yield
    finally:
        host.output("sh", "-c", ALL_ON)
        host.output("systemctl", "daemon-reload")
        restart(host)


def restart(host: Served) -> None:
    host.output("systemctl", "restart", "rtagent", timeout=PATIENCE)


def online(host: Served) -> frozenset[int]:
    return parse_cpu_spec(host.output("cat", "/sys/devices/system/cpu/online"))


def governors(host: Served) -> dict[int, str]:
    """Return the governor of each CPU."""
    files = "grep . /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
    lines = (line.split(":") for line in host.output("sh", "-c", files).splitlines())
    return {int(file.split("/")[5][3:]): name for file, name in lines}


def test_unassigned_cpus_have_the_low_power_governor(host: Served):
    with managed(host, cpu_power_management_strategy="governor"):
        low = {**governors(host), **dict.fromkeys(DEDICATED, "powersave")}
        wait_until(lambda: governors(host) == low)
        claim = host.claim(uid(), cpu_policy="dedicated")
        host.api.activate_claim(CONTEXT, claim["uuid"])
        own = set(claim["numa_topology"]["cells"][0]["cpu_pinning"].values())
        assert governors(host) == {**low, **dict.fromkeys(own, "performance")}
        host.api.release_claim(CONTEXT, claim["uuid"])
        wait_until(lambda: governors(host) == low)
    assert online(host) == SHARED | DEDICATED


@pytest.fixture(scope="module")
def managing(rack: Rack) -> Iterator[None]:
    """Make the agent put CPUs offline, for all tests of this module: a start takes long."""
    with managed(rack.host("two-sockets")):
        yield


def test_unassigned_cpus_are_offline(managing: None, host: Served):
    wait_until(lambda: online(host) == SHARED)
    assert host.uses() == dict.fromkeys(SHARED, "shared") | dict.fromkeys(DEDICATED, "free")
    assert host.read("/health")["checks"]["power"][0]["status"] == "pass"

    claim = host.claim(uid(), cpu_policy="dedicated", cpu_thread_policy="require")
    own = set(claim["numa_topology"]["cells"][0]["cpu_pinning"].values())
    assert own in ({2, 3}, {4, 5}, {6, 7})
    host.api.activate_claim(CONTEXT, claim["uuid"])
    assert online(host) == SHARED | own

    create(host, claim)
    restart(host)
    wait_until(lambda: online(host) == SHARED | own)
    assert host.read("/drift")["drift"] == []

    host.output("virsh", "destroy", claim["owner_id"])
    host.api.release_claim(CONTEXT, claim["uuid"])
    wait_until(lambda: online(host) == SHARED)


def test_cpus_of_a_claim_are_online_before_its_activation(managing: None, host: Served):
    wait_until(lambda: online(host) == SHARED)
    claim = host.claim(uid(), cpu_policy="dedicated")
    own = set(claim["numa_topology"]["cells"][0]["cpu_pinning"].values())
    wait_until(lambda: online(host) == SHARED | own)
    create(host, claim)
    host.audit()
    assert [held["state"] for held in host.claims()] == ["active"]


def test_libvirtd_that_starts_while_cpus_are_offline(managing: None, host: Served):
    """That libvirtd reports no cell for these CPUs until it is restarted."""
    wait_until(lambda: online(host) == SHARED)
    before = host.uses()
    host.output("systemctl", "restart", "libvirtd")
    wait_until(lambda: whole(host))
    assert host.uses() == before

    restart(host)
    assert host.uses() == before
    # Otherwise libvirtd would report none until its restart, and the next agent would not start.
    host.output("systemctl", "stop", "rtagent")
    host.output("sh", "-c", ALL_ON)
    host.output("systemctl", "restart", "libvirtd")


def whole(host: Served) -> bool:
    """Whether the agent is connected to the hypervisor."""
    try:
        host.audit()
    except HypervisorUnavailable:
        return False
    return True
