"""rtagent-nova-compute on two hosts with libvirt and QEMU, under Nova's conductor and scheduler.

Placement, Neutron, RabbitMQ and MariaDB are real, too. There is no image service, because the
hosts' cache has the image, and the servers have no ports, because no agent would bind them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.nova.cloud import Cloud
from tests.nova.cloud_agreement import wait_agreement
from tests.nova.compute_host import PATIENCE
from tests.nova.steps import (
    LARGE,
    SMALL,
    build,
    delete,
    forced_down,
    held,
    order,
    servers,
    wait_for,
    wait_held,
)
from tests.servers import MariaDB, RabbitMQ
from tests.servers.daemon import wait_until

pytestmark = pytest.mark.timeout(1800)

PINNED = {"hw:cpu_policy": "dedicated"}
#: The first has one CPU for pinned servers, and one for others; the second has two for pinned ones.
ONE, TWO = "compute1", "compute2"


@pytest.fixture(scope="module")
def running_cloud(
    tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ, mariadb_server: MariaDB
) -> Iterator[Cloud]:
    made = Cloud(tmp_path_factory.mktemp("cloud"), rabbitmq_server, mariadb_server)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def cloud(running_cloud: Cloud) -> Iterator[Cloud]:
    """A cloud without servers; nothing is held when those of the test are deleted."""
    yield running_cloud
    delete(running_cloud, *servers(running_cloud))
    wait_agreement(running_cloud)
    for host in running_cloud.hosts.values():
        assert (host.claims(), host.domains()) == ([], {})
    running_cloud.delete_allocations()


def test_servers_are_built_and_survive_kills_of_nova_compute(cloud: Cloud) -> None:
    one = cloud.hosts[ONE]
    pinned = build(cloud, "pinned", ONE, PINNED)
    assert held(one, pinned) == [[1]]
    wait_agreement(cloud)

    one.compute.kill()
    names = [f"plain-{number}" for number in range(3)]
    one.compute.start()
    for name in names:
        order(cloud, name, ONE, {})
    one.compute.kill()  # in the middle of the builds, or before them
    one.compute.start()
    one.wait_observed()

    assert pinned in one.domains()
    refused = order(cloud, "second", ONE, PINNED)
    wait_for(cloud, refused, "error", None)  # the CPU is not given twice
    assert held(one, refused) == []
    last = build(cloud, "last", ONE, {})
    wait_agreement(cloud)
    assert {pinned, last} <= set(one.domains())


def test_the_cpu_of_a_deleted_server_is_given_again(cloud: Cloud) -> None:
    two = cloud.hosts[TWO]
    first, second = (build(cloud, name, TWO, PINNED) for name in ("first", "second"))
    build(cloud, "other", ONE, PINNED)
    wait_agreement(cloud)
    (pins,) = held(two, first)
    assert [pins, *held(two, second)] in ([[0], [1]], [[1], [0]])
    wait_for(cloud, order(cloud, "refused", TWO, PINNED), "error", None)

    delete(cloud, first)
    wait_agreement(cloud)
    assert held(two, first) == []
    assert first not in two.domains()

    third = build(cloud, "third", TWO, PINNED)
    assert held(two, third) == [pins] == [two.domains()[third]]
    wait_agreement(cloud)


def test_resizes_on_one_host_hold_both_cpus_until_they_end(cloud: Cloud) -> None:
    two = cloud.hosts[TWO]
    build(cloud, "other", ONE, PINNED)  # so that the scheduler finds no other host
    server = build(cloud, "resized", TWO, PINNED)
    (old,) = held(two, server)
    new = [1 - old[0]]
    for memory_mb, resized, end in ((LARGE, new, "confirm"), (SMALL, old, "revert")):
        cloud.call("resize", server, memory_mb, PINNED)
        wait_for(cloud, server, "resized", TWO)
        assert sorted(held(two, server)) == [[0], [1]]
        assert two.domains()[server] == resized
        wait_agreement(cloud)

        cloud.call(end, server)
        wait_for(cloud, server, "active", TWO)
        wait_held(two, server, new)
        assert two.domains()[server] == new
        wait_agreement(cloud)


def test_moves_between_hosts_hold_cpus_at_both_until_they_end(cloud: Cloud) -> None:
    one, two = cloud.hosts[ONE], cloud.hosts[TWO]
    server = build(cloud, "moved", TWO, PINNED)
    (source,) = held(two, server)
    cloud.call("migrate", server, ONE)
    wait_for(cloud, server, "resized", ONE)
    assert (held(one, server), held(two, server)) == ([[1]], [source])
    assert (one.domains(), two.domains()) == ({server: [1]}, {})
    wait_agreement(cloud)
    cloud.call("confirm", server)
    wait_for(cloud, server, "active", ONE)
    wait_held(two, server)
    wait_agreement(cloud)

    cloud.call("resize", server, LARGE, PINNED)  # the first host has no other CPU
    wait_for(cloud, server, "resized", TWO)
    (new,) = held(two, server)
    assert held(one, server) == [[1]]
    assert (one.domains(), two.domains()) == ({}, {server: new})
    wait_agreement(cloud)
    cloud.call("revert", server)
    wait_for(cloud, server, "active", ONE)
    wait_held(two, server)
    assert (one.domains(), two.domains()) == ({server: [1]}, {})
    wait_agreement(cloud)


@pytest.mark.parametrize(
    ("destination", "victim"), [(TWO, TWO), (ONE, ONE), (ONE, TWO)], ids=["here", "there", "source"]
)
def test_claims_agree_after_a_kill_in_a_move(cloud: Cloud, destination: str, victim: str) -> None:
    """The process ends as soon as the claim of the destination is made."""
    server = build(cloud, "moved", TWO, PINNED)
    if destination == TWO:
        build(cloud, "other", ONE, PINNED)
        cloud.call("resize", server, LARGE, PINNED)
    else:
        cloud.call("migrate", server, destination)
    claims = 2 if destination == TWO else 1
    wait_until(lambda: len(held(cloud.hosts[destination], server)) == claims, PATIENCE)
    killed = cloud.hosts[victim]
    killed.compute.kill()
    killed.compute.start()
    killed.wait_observed()
    wait_agreement(cloud)


def test_live_migrated_server_runs_on_the_cpus_of_its_new_claim(cloud: Cloud) -> None:
    one, two = cloud.hosts[ONE], cloud.hosts[TWO]
    # Libvirt refuses a migration that copies no disk unless the file system is a network's.
    with two.own_copy(cloud.instances):
        for name in ("first", "second"):
            build(cloud, name, TWO, PINNED)
        (leaving,) = (uuid for uuid, pins in two.domains().items() if pins == [0])
        delete(cloud, leaving)
        server = build(cloud, "moved", ONE, PINNED)
        assert one.domains() == {server: [1]}

        for source, destination, pins in ((one, TWO, [0]), (two, ONE, [1])):
            cloud.call("live_migrate", server, destination)
            wait_for(cloud, server, "active", destination)
            wait_held(source, server)
            assert held(cloud.hosts[destination], server) == [pins]
            assert cloud.hosts[destination].domains()[server] == pins
            assert server not in source.domains()
            wait_agreement(cloud)
        delete(cloud, *servers(cloud))


def test_evacuated_server_is_held_at_its_new_host_alone(cloud: Cloud) -> None:
    one, two = cloud.hosts[ONE], cloud.hosts[TWO]
    server = build(cloud, "evacuated", ONE, PINNED)
    one.cut_power()
    with forced_down(cloud, ONE):
        cloud.call("evacuate", server)
        wait_for(cloud, server, "active", TWO)
        (pins,) = held(two, server)
        assert two.domains() == {server: pins}

        one.start()
        one.wait_observed()
    wait_agreement(cloud)
    assert (held(one, server), one.domains()) == ([], {})
    build(cloud, "next", ONE, PINNED)  # the CPU is given again
    wait_agreement(cloud)
