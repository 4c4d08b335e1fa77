"""A running guest migrates between two hosts with QEMU."""

import contextlib
from collections.abc import Iterator

import libvirt
import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent.errors import EnactmentFailed
from rtagent.model.guest import GuestDomain
from rtagent.virt.enactor import LibvirtEnactor
from tests.servers.libvirtd import Libvirtd, MigratingLibvirtd
from tests.support.guests import guest_domain

#: An address of the loopback interface. Libvirt refuses 127.0.0.1 as a destination.
ADDRESS = "127.0.0.2"
DOCUMENT = """<domain type='qemu'><iothreads>1</iothreads>
  <cputune><iothreadpin iothread='1' cpuset='0-1'/></cputune>
  <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features><devices/>
</domain>"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory) -> Iterator[tuple[str, MigratingLibvirtd, MigratingLibvirtd]]:
    """A directory with a link to each host's directory by its name, and the hosts."""
    directory = tmp_path_factory.mktemp("hosts")
    with MigratingLibvirtd("one", ADDRESS) as one, MigratingLibvirtd("two", ADDRESS) as two:
        (directory / "one").symlink_to(one.directory)
        (directory / "two").symlink_to(two.directory)
        yield str(directory), one, two


def enactor_for(hosts, **options) -> LibvirtEnactor:
    directory, _, two = hosts
    return LibvirtEnactor(
        f"qemu:///system?socket={directory}/{{host}}/libvirt-sock",
        shutdown_timeout=0.0,
        migration_uri=two.peer_uri,
        virt_type="qemu",
        **options,
    )


def pins(server: Libvirtd, uuid: str) -> list[str | None]:
    connection = libvirt.open(server.uri)
    try:
        root = etree.fromstring(connection.lookupByUUIDString(uuid).XMLDesc())
        tags = ("vcpupin", "emulatorpin", "iothreadpin")
        return [pin.get("cpuset") for tag in tags for pin in root.iterfind(f"cputune/{tag}")]
    finally:
        connection.close()


def with_an_io_thread(cpu: int, owner: str | None = None) -> GuestDomain:
    """A guest with all of its threads on one CPU."""
    domain = guest_domain(cpu, owner=owner, document=DOCUMENT)
    assert domain.claim.numa_topology is not None
    numa = replace(domain.claim.numa_topology, emulator_pcpus=frozenset({cpu}))
    return replace(domain, claim=replace(domain.claim, numa_topology=numa))


def test_guest_runs_at_the_destination_on_the_cpus_of_its_new_claim(hosts):
    here = with_an_io_thread(0)
    there = with_an_io_thread(1, owner=here.uuid)
    with contextlib.closing(enactor_for(hosts)) as enactor:
        enactor.define("one", here)
        enactor.start("one", here)
        assert pins(hosts[1], here.uuid) == ["0"] * 3
        for _ in range(2):
            enactor.live_migrate("one", "two", there, [here.claim.uuid])
            assert enactor.state("one", here.uuid) == "absent"
            assert enactor.state("two", here.uuid) == "running"
            assert pins(hosts[2], here.uuid) == ["1"] * 3
        enactor.undefine("two", here.uuid, [there.claim.uuid])


def test_migration_that_takes_too_long_leaves_the_guest_on_one_host(hosts):
    """It is aborted, unless it ends at that moment."""
    domain, at = guest_domain(), "two"
    with contextlib.closing(enactor_for(hosts, migration_timeout=0.001)) as enactor:
        enactor.define("one", domain)
        enactor.start("one", domain)
        try:
            enactor.live_migrate("one", "two", domain, [domain.claim.uuid])
        except EnactmentFailed as error:
            assert "cannot migrate" in str(error)
            at = "one"
        states = {name: enactor.state(name, domain.uuid) for name in ("one", "two")}
        assert states == {"one": "absent", "two": "absent"} | {at: "running"}
        enactor.undefine(at, domain.uuid, [domain.claim.uuid])
