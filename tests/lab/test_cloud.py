"""Real guests on two hosts under a scheduler and a conductor."""

from contextlib import ExitStack
from functools import partial

from lab.machine import NVME
from rtagent.virt.libvirt.given_devices import given_devices
from tests.lab.cloud import cloud
from tests.lab.guests import granted
from tests.lab.pci import ALIAS, devices, driver, functions, offering
from tests.lab.rack import Rack, Served, wait_until
from tests.lab.test_enactment import live, threads
from tests.servers import RabbitMQ

PINNED = ("--property", "hw:cpu_policy=dedicated", "--property", f"pci_passthrough:alias={ALIAS}:1")
SIZE = ("--vcpus", "2", "--memory", "128")


def quiet(host: Served, uuid: str) -> None:
    """Let a guest's CPUs stand still: a firmware that finds nothing to boot takes all time."""
    host.output("virsh", "suspend", uuid)


def has_functions(host: Served) -> bool:
    """Return whether the agent has seen the physical function and two virtual ones."""
    return len(devices(host)) == 3


def check_guest(host: Served, uuid: str, memory_mb: int) -> None:
    """Check that a guest runs on a host as its only claim assigns it, and that audits agree."""
    (claim,) = host.claims()
    assert (claim["owner_id"], claim["state"], claim["suspect"]) == (uuid, "active", None)
    given = granted(claim)
    document = live(host, uuid)
    assert document.findtext("memory") == str(memory_mb * 1024)
    (function,) = given.pci
    assert driver(host, function.address) == "vfio-pci"
    assert given_devices(document).addresses == {function.address}
    (cell,) = given.numa_topology.cells
    there = threads(host, document.findtext("name") or "")
    pins = {there[f"CPU {vcpu}/TCG"] for vcpu in (0, 1)}
    assert pins == {frozenset({cpu}) for cpu in cell.cpu_pinning.values()}
    host.audit()
    assert host.read("/drift")["drift"] == host.read("/orphans")["orphans"] == []


def check_empty(host: Served) -> None:
    """Check that a host has neither a domain nor a claim, and its devices are free."""
    host.audit()
    assert host.output("virsh", "list", "--all", "--name").split() == []
    assert host.claims() == []
    assert {each["status"] for each in devices(host).values()} <= {"available", "unavailable"}


def test_a_server_is_built_resized_evacuated_and_its_host_comes_back(
    rack: Rack, rabbitmq: RabbitMQ
):
    pair = rack.hosts("two-sockets", 2)
    by_name = {host.hostname: host for host in pair}
    with ExitStack() as stack:
        for host in pair:
            stack.enter_context(offering(host, NVME, device_type="type-VF"))
            functions(host, 2)
            wait_until(partial(has_functions, host))
        commands = stack.enter_context(cloud(pair, rabbitmq))

        built = commands.run("server", "build", "nfv-1", *SIZE, *PINNED)
        uuid, first = built["uuid"], by_name[built["host"]]
        quiet(first, uuid)
        check_guest(first, uuid, 128)

        resized = commands.run("server", "resize", uuid, "--memory", "192")
        second = by_name[resized["host"]]
        assert second is not first
        quiet(second, uuid)
        commands.run("server", "confirm", uuid)
        check_guest(second, uuid, 192)
        check_empty(first)

        second.kill()
        wait_until(lambda: commands.state(second) == "down")
        commands.run("server", "evacuate", uuid)
        quiet(first, uuid)
        check_guest(first, uuid, 192)

        second.start().wait_served()
        commands.act("server", "resume")
        check_empty(second)
        commands.act("server", "delete", uuid)
        check_empty(first)
