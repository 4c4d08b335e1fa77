"""CPU power management, on the kernel's own switches and governors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from lab.places import ROOT
from rtagent.errors import HypervisorUnavailable
from rtagent.model.cpuset import parse_cpu_spec
from tests.builders import uid
from tests.lab.guests import create
from tests.lab.rack import CONTEXT, PATIENCE, Rack, Served, wait_until

#: The profile's.
SHARED, DEDICATED = {0, 1}, {2, 3, 4, 5, 6, 7}
DROP_IN = (ROOT / "etc/rtagent/rtagent-cpu-power.conf").read_text()
ALL_ON = "for cpu in /sys/devices/system/cpu/cpu*/online; do echo 1 >$cpu; done"
UNIT = "/run/systemd/system/rtagent.service.d/cpu-power.conf"


@contextlib.contextmanager
def managed(host: Served, **options: str) -> Iterator[None]:
    """An agent that manages the power of its dedicated CPUs."""
    managing = host.configured("libvirt", cpu_power_management=True, **options)
    try:
        with host.file(UNIT, DROP_IN), managing:
            host.tell("systemctl", "daemon-reload")
            restart(host)
            yield
    finally:
        host.tell("sh", "-c", ALL_ON)
        host.tell("systemctl", "daemon-reload")
        restart(host)


def restart(host: Served) -> None:
    host.tell("systemctl", "restart", "rtagent", timeout=PATIENCE)


def online(host: Served) -> frozenset[int]:
    return parse_cpu_spec(host.tell("cat", "/sys/devices/system/cpu/online"))


def governors(host: Served) -> dict[int, str]:
    """Of each CPU."""
    files = "grep . /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
    lines = (line.split(":") for line in host.tell("sh", "-c", files).splitlines())
    return {int(file.split("/")[5][3:]): name for file, name in lines}


def test_cpus_that_nobody_holds_have_another_governor(host: Served):
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
    """The host of these tests, whose agent switches CPUs off: it takes long to start."""
    with managed(rack.host("two-sockets")):
        yield


def test_cpus_that_nobody_holds_are_off(managing: None, host: Served):
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

    host.tell("virsh", "destroy", claim["owner_id"])
    host.api.release_claim(CONTEXT, claim["uuid"])
    wait_until(lambda: online(host) == SHARED)


def test_a_claim_that_is_never_activated_has_its_cpus_on(managing: None, host: Served):
    wait_until(lambda: online(host) == SHARED)
    claim = host.claim(uid(), cpu_policy="dedicated")
    own = set(claim["numa_topology"]["cells"][0]["cpu_pinning"].values())
    wait_until(lambda: online(host) == SHARED | own)
    create(host, claim)
    host.audit()
    assert [held["state"] for held in host.claims()] == ["active"]


def test_a_libvirtd_that_starts_while_cpus_are_off(managing: None, host: Served):
    """It has no cell for them as long as it runs."""
    wait_until(lambda: online(host) == SHARED)
    before = host.uses()
    host.tell("systemctl", "restart", "libvirtd")
    wait_until(lambda: whole(host))
    assert host.uses() == before

    restart(host)
    assert host.uses() == before
    # Or it would have none as long as it runs, and the next test an agent that does not start.
    host.tell("systemctl", "stop", "rtagent")
    host.tell("sh", "-c", ALL_ON)
    host.tell("systemctl", "restart", "libvirtd")


def whole(host: Served) -> bool:
    """Whether the agent sees the hypervisor."""
    try:
        host.audit()
    except HypervisorUnavailable:
        return False
    return True
