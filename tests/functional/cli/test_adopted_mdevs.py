"""rtagent orphan adopt, on a host whose guests have mediated devices that others made, under
uuids of their own."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rtagent.virt.simulate import Machine, edit, host_uri, simulate
from tests.functional.cli.shell import Run, serving
from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon
from tests.support.claims import domain_document
from tests.support.node_devices import gpu, mdev, pci_name

#: A GPU with as many mediated devices as its type may have, and one with more.
FULL, ABOVE = "0000:09:00.0", "0000:0a:00.0"
TYPE, MOST = "nvidia-11", 3
CONFIG = {"devices": {"enabled_mdev_types": TYPE}, f"mdev_{TYPE}": {"max_instances": MOST}}
RUNNING, SHUT_OFF, TOO_MANY = (str(UUID(int=9000 + number)) for number in range(3))
#: The mediated devices of each guest, and the GPU that has them.
MDEVS = {
    RUNNING: (
        FULL,
        ("4b20d080-1b54-4048-85b3-a6a62d165c01", "c60c455b-4f4a-4d6c-a8ad-0d5d2b7d1e9f"),
    ),
    SHUT_OFF: (FULL, ("0f6ed8f3-8a67-4b6e-9d5c-2f1f7f7c9f11",)),
    TOO_MANY: (
        ABOVE,
        (
            "a297db4a-f4c2-11e6-90f6-d3b88d6c9525",
            "b3f1a4de-6a0e-4a58-8f2e-5d9a7a0c4b21",
            "d7f0c3d2-35a5-4cf8-b6a4-f2a1b7a1c0e4",
            "e9a0b1b6-0f3b-4a55-9b53-7e2f0e9d8c3a",
        ),
    ),
}
_OFF = "<test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>5</test:runstate>"


def guest(uuid: str) -> str:
    """Return the document of a guest with its mediated devices."""
    devices = "".join(
        "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source>"
        f"<address uuid='{each}'/></source></hostdev>"
        for each in MDEVS[uuid][1]
    )
    return domain_document(uuid, 1, 512, _OFF if uuid == SHUT_OFF else "", devices=devices)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a host with two GPUs on which nothing more can be created."""
    file = tmp_path_factory.mktemp("host") / "host.xml"
    simulate(file, Machine(gpus=1))
    with edit(file) as world:
        for address in (FULL, ABOVE):
            world.add_device(gpu(address, free=0))
        for uuid, (address, mdevs) in MDEVS.items():
            world.add_domain(guest(uuid))
            for each in mdevs:
                world.add_device(mdev(each, TYPE, pci_name(address)))
    return file


@pytest.fixture(scope="module")
def agent(
    tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ, host: Path
) -> Iterator[Daemon]:
    directory, url = tmp_path_factory.mktemp("adopted-mdevs"), rabbitmq_server.transport_url
    with Daemon(directory, url, uri=host_uri(host), config=CONFIG) as daemon:
        yield serving(daemon)


def identifiers(*guests: str) -> set[str]:
    return {f"{MDEVS[uuid][0]}/{TYPE}/{each}" for uuid in guests for each in MDEVS[uuid][1]}


def owners(rtagent: Run) -> dict[str, str | None]:
    """The owner of each virtual GPU in an inventory, by identifier."""
    listed = rtagent("resource", "list", "-f", "json").json
    return {each["identifier"]: each["owner_id"] for each in listed}


def claims(rtagent: Run) -> dict[str, str]:
    """The uuid of the claim of each guest."""
    listed = rtagent("claim", "list", "-f", "json").json
    return {each["instance_uuid"]: each["uuid"] for each in listed}


def adopt(rtagent: Run, *options: str) -> dict[str, dict[str, Any]]:
    done = rtagent("orphan", "adopt", "--all", "--shut-off", *options, "-f", "json")
    assert done.code == 6, done.err
    return {each["domain_uuid"]: each for each in done.json}


def results(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {uuid: each["result"] for uuid, each in found.items()}


def check_no_drift(rtagent: Run, adopted: Iterable[str]) -> None:
    assert rtagent("drift", "list", "-f", "json").json == []
    assert claims(rtagent).keys() == set(adopted)


def create(rtagent: Run, number: int):
    flavor = ("--vcpus", "1", "--memory", "64", "--property", f"resources:VGPU={number}")
    return rtagent("claim", "create", "--instance", str(UUID(int=1)), *flavor, "-f", "json")


def test_guests_with_mediated_devices_of_others_are_adopted(rtagent: Run, agent: Daemon) -> None:
    planned = adopt(rtagent, "--dry-run")
    assert results(planned) == {
        RUNNING: "would be adopted",
        SHUT_OFF: "would be adopted",
        TOO_MANY: "not adopted",
    }
    assert claims(rtagent) == {}

    found = adopt(rtagent)
    assert results(found) == {RUNNING: "adopted", SHUT_OFF: "adopted", TOO_MANY: "not adopted"}
    sentence = f"4 mediated devices of {ABOVE} are in use, and max_instances of their type is 3"
    assert sentence in found[TOO_MANY]["notes"][0]
    adopted = claims(rtagent)
    check_no_drift(rtagent, (RUNNING, SHUT_OFF))

    assert results(adopt(rtagent)) == {TOO_MANY: "not adopted"}
    assert rtagent("audit", "run").code == 0
    check_no_drift(rtagent, (RUNNING, SHUT_OFF))
    agent.kill()
    serving(agent.start())
    assert rtagent("audit", "run").code == 0
    check_no_drift(rtagent, (RUNNING, SHUT_OFF))
    assert claims(rtagent) == adopted
    assert owners(rtagent) == {
        name: uuid for uuid in (RUNNING, SHUT_OFF) for name in identifiers(uuid)
    }


def test_the_end_of_their_claims_frees_the_devices(rtagent: Run, host: Path) -> None:
    assert create(rtagent, 1).code == 3
    adopted = claims(rtagent)
    with edit(host) as world:
        world.set_active(RUNNING, False)
    assert rtagent("audit", "run").code == 0
    for uuid in (RUNNING, SHUT_OFF):
        assert rtagent("claim", "release", adopted[uuid]).code == 0
    assert rtagent("audit", "run").code == 0

    created = create(rtagent, 3)
    assert created.code == 0, created.err
    assert {each["identifier"] for each in created.json["resources"]} == identifiers(
        RUNNING, SHUT_OFF
    )
