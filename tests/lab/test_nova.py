"""rtagent-nova-compute on lab hosts: servers with a pinned CPU and a virtual function.

Nova's conductor and scheduler, Placement, Neutron, RabbitMQ and MariaDB run on this machine. After
each step the claims, Nova's rows, libvirt's domains and the drivers of the devices agree. There is
no network between lab hosts, so no server is moved from one that has power.
"""

from collections.abc import Iterator

import pytest

from tests.lab.nova_agreement import wait_agreement
from tests.lab.nova_cloud import NovaCloud
from tests.lab.nova_host import FUNCTIONS, PINNED_CPUS, SOCKET, STATE, NovaHost
from tests.nova import steps
from tests.nova.compute_host import PATIENCE, PAUSE
from tests.nova.steps import LARGE, SMALL, delete, forced_down, order, servers, wait_for
from tests.servers import MariaDB, RabbitMQ
from tests.servers.daemon import wait_until

ONE, TWO = "nova1", "nova2"
PINNED = {"hw:cpu_policy": "dedicated"}
#: With one virtual function, and with both that a host has.
WITH_ONE, WITH_BOTH = ({**PINNED, "pci_passthrough:alias": f"nvme:{each}"} for each in (1, 2))


@pytest.fixture(scope="module")
def running_cloud(
    tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ, mariadb_server: MariaDB
) -> Iterator[NovaCloud]:
    directory = tmp_path_factory.mktemp("cloud")
    made = NovaCloud(directory, rabbitmq_server, mariadb_server, (ONE, TWO))
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def cloud(running_cloud: NovaCloud) -> Iterator[NovaCloud]:
    """A cloud without servers; nothing is held when those of the test are deleted."""
    yield running_cloud
    delete(running_cloud, *servers(running_cloud))
    wait_agreement(running_cloud)
    for host in running_cloud.hosts.values():
        found = host.look()
        assert (found.claims(), found.domains()) == ([], {})
    running_cloud.delete_allocations()


def build(cloud: NovaCloud, name: str, extra_specs: dict[str, str]) -> str:
    """Build a server on the first host, and return its uuid."""
    uuid = steps.build(cloud, name, ONE, extra_specs)
    cloud.suspend_domains()
    wait_agreement(cloud)
    return uuid


def arrive(cloud: NovaCloud, uuid: str, vm_state: str, host: str) -> None:
    """Wait until a server is in a state on a host, and let it stand still."""
    wait_for(cloud, uuid, vm_state, host)
    cloud.suspend_domains()


def refuse(cloud: NovaCloud, name: str, extra_specs: dict[str, str]) -> None:
    """Have a server built on the first host, and wait until it is refused."""
    uuid = order(cloud, name, ONE, extra_specs)
    wait_for(cloud, uuid, "error", None)
    assert cloud.hosts[ONE].look().held(uuid) == []


def wait_held(host: NovaHost, uuid: str, assigned: tuple[list[int], list[str]]) -> None:
    """Wait until a server has one claim on a host, with these CPUs and devices."""
    wait_until(lambda: host.look().held(uuid) == [assigned], PATIENCE, PAUSE)


def wait_marked(cloud: NovaCloud, uuid: str, devices: int) -> None:
    """Wait until Nova's rows say that a server has so many devices on the first host."""

    def are_marked() -> bool:
        owners = cloud.call("nodes")[ONE]["devices"].values()
        return list(owners).count(uuid) == devices

    wait_until(are_marked, PATIENCE, PAUSE)


def restart(cloud: NovaCloud) -> None:
    """Kill nova-compute on the first host, and start it again."""
    cloud.hosts[ONE].kill()
    cloud.hosts[ONE].start()
    cloud.suspend_domains()
    wait_agreement(cloud)


def test_the_devices_of_a_deleted_server_are_given_again(cloud: NovaCloud) -> None:
    one = cloud.hosts[ONE]
    first = build(cloud, "first", WITH_BOTH)
    found = one.look()
    ((pins, devices),) = found.held(first)
    assert devices == FUNCTIONS
    assert found.runs_on(first) == (pins, devices)
    assert one.vcpu_affinity(first) == set(pins)
    assert first in one.host.output("rtagent", "--socket", SOCKET, "claim", "list")
    refuse(cloud, "refused", WITH_ONE)
    wait_agreement(cloud)

    delete(cloud, first)
    wait_agreement(cloud)
    found = one.look()
    assert (found.held(first), found.domains()) == ([], {})
    assert "vfio-pci" not in found.drivers.values()

    second = build(cloud, "second", WITH_ONE)
    found = one.look()
    ((again, (device,)),) = found.held(second)
    assert (again, device in FUNCTIONS) == (pins, True)
    assert found.runs_on(second) == (again, [device])


def test_a_resize_on_one_host_holds_both_devices_until_it_ends(cloud: NovaCloud) -> None:
    one = cloud.hosts[ONE]
    server = build(cloud, "resized", WITH_ONE)
    with forced_down(cloud, TWO):
        for memory_mb, end in ((LARGE, "confirm"), (SMALL, "revert")):
            (old,) = one.look().held(server)
            cloud.call("resize", server, memory_mb, WITH_ONE)
            arrive(cloud, server, "resized", ONE)
            wait_agreement(cloud)
            found = one.look()
            (new,) = (each for each in found.held(server) if each != old)
            assert found.runs_on(server) == new
            assert sorted([*old[0], *new[0]]) == PINNED_CPUS
            assert sorted([*old[1], *new[1]]) == FUNCTIONS
            refuse(cloud, f"refused-{end}", PINNED)

            cloud.call(end, server)
            arrive(cloud, server, "active", ONE)
            wait_agreement(cloud)
            left = new if end == "confirm" else old
            wait_held(one, server, left)
            assert one.look().runs_on(server) == left


def test_claims_agree_after_a_kill_in_a_build_and_in_a_resize(cloud: NovaCloud) -> None:
    one = cloud.hosts[ONE]
    first = order(cloud, "built", ONE, WITH_ONE)
    wait_marked(cloud, first, 1)
    restart(cloud)
    delete(cloud, first)
    wait_agreement(cloud)
    assert one.look().claims() == []

    second = build(cloud, "resized", WITH_ONE)
    with forced_down(cloud, TWO):
        cloud.call("resize", second, LARGE, WITH_ONE)
        wait_marked(cloud, second, 2)
        restart(cloud)
    delete(cloud, second)
    wait_agreement(cloud)
    assert one.look().claims() == []


def test_the_device_of_an_evacuated_server_is_given_again_when_its_host_returns(
    cloud: NovaCloud,
) -> None:
    one, two = cloud.hosts[ONE], cloud.hosts[TWO]
    server = build(cloud, "evacuated", WITH_ONE)
    one.host.kill()
    with forced_down(cloud, ONE):
        # As if the hosts shared this directory; or else Nova asks the image service for the image.
        two.host.output("mkdir", f"{STATE}/instances/{server}")
        cloud.call("evacuate", server)
        arrive(cloud, server, "active", TWO)
        wait_agreement(cloud, TWO)
        found = two.look()
        assert found.held(server) == [found.runs_on(server)]
        one.start()
        wait_agreement(cloud)
    assert one.look().held(server) == []
    assert one.host.output("virsh", "list", "--all", "--name").split() == []

    again = build(cloud, "again", WITH_BOTH)
    assert one.look().domain_devices() == {again: FUNCTIONS}
