"""Whether claims, Nova's rows, libvirt's domains and Linux agree on lab hosts: CPUs and devices."""

from collections.abc import Iterator, Mapping

from tests.lab.nova_cloud import NovaCloud, at_once
from tests.lab.nova_host import NovaHost
from tests.lab.nova_look import Look, devices_of
from tests.nova.cloud_agreement import assert_distinct, disagreements, wait_none


def wait_agreement(cloud: NovaCloud, *names: str) -> None:
    """Wait until they agree. :param names: of the hosts to look at; none: all.

    :raises AssertionError: they do not, or a CPU or device is held twice.
    """
    hosts = {name: cloud.hosts[name] for name in names or cloud.hosts}

    def find() -> list[str]:
        looks = at_once(NovaHost.look, hosts)
        return [*disagreements(cloud.call, looks), *_of_devices(cloud, looks)]

    wait_none(find)


def _of_devices(cloud: NovaCloud, looks: Mapping[str, Look]) -> Iterator[str]:
    nodes = cloud.call("nodes")
    for name, look in looks.items():
        for each in _of_host(look, nodes[name]["devices"]):
            yield f"{name}: {each}"


def _of_host(look: Look, rows: Mapping[str, str]) -> Iterator[str]:
    claims, domains = look.claims(), look.domain_devices()
    held = [(address, each["owner_id"]) for each in claims for address in devices_of(each)]
    assert_distinct((address for address, _ in held), f"claims {claims}")
    given = [address for each in domains.values() for address in each]
    assert_distinct(given, f"domains {domains}")
    if rows != dict(held):
        yield f"Nova's rows of devices {rows}, claims {held}"
    for uuid, devices in domains.items():
        if devices not in (of_claim for _, of_claim in look.held(uuid)):
            yield f"domain {uuid} with {devices}, claims {held}"
    bound = {address for address, name in look.drivers.items() if name == "vfio-pci"}
    if bound != set(given):
        yield f"drivers {look.drivers}, domains {domains}"
