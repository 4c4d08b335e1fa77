"""Each server goes away and comes back, under a stream of claims; all ends well by itself."""

import random
from functools import partial
from uuid import UUID

import pytest

from rtagent.errors import HypervisorUnavailable
from tests.functional.outage.site import Site, outages
from tests.servers.daemon import wait_until
from tests.stream.deed import Writer
from tests.stream.home import Domains


@pytest.fixture
def some(long: bool) -> int:
    """How many deeds are done between two outages."""
    return 200 if long else 20


def nobodys(number: int) -> Domains:
    """So many domains of one vCPU for which nobody claimed anything."""
    return {str(UUID(int=n)): (1, 64) for n in range(number)}


def refuses(site: Site) -> None:
    """Nothing new is granted."""
    asked = Writer(random.Random(7)).claim()
    with pytest.raises(HypervisorUnavailable):
        site.home.invoke(asked.method, **asked.document)


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_a_database_that_goes_away(request, site_with, some: int, database: str):
    server = request.getfixturevalue(database)
    site = site_with(server)
    with site.stream(database) as stream:
        stream.wait_answers(some)
        for outage in outages(server):
            with outage:
                site.wait_ill("store")
                assert site.home.daemon.read("nodes")["stale"]
            stream.wait_answers(some)
            site.judge.judge(stream.ledger)
    site.wait_well()
    site.confirm(stream)


def test_a_broker_that_goes_away(site_with, rabbitmq, some: int):
    site = site_with(attempts=1)
    with site.stream("broker") as stream:
        stream.wait_answers(some)
        for outage in outages(rabbitmq):
            with outage:
                site.wait_ill("rpc")
                site.judge.judge(stream.ledger)
            stream.wait_answers(some)
    site.wait_well()
    site.confirm(stream)


def test_a_placement_that_goes_away_fails_no_claim(site_with, placement_server, some: int):
    options = {"auth_type": "admin_token", "endpoint": placement_server.url, "token": "admin"}
    config = {"placement": {**options, "timeout": 1}}
    site = site_with(config=config, timeout=60, attempts=1)  # a claim that fails is seen
    uuid = (site.home.daemon.directory / "compute_id").read_text().strip()

    def shows(number: int) -> bool:
        path = f"/resource_providers/{uuid}/inventories"
        inventories = placement_server.client().get(path).json().get("inventories", {})
        return "VCPU" in inventories and inventories["VCPU"]["reserved"] == number

    wait_until(partial(shows, 0))
    with site.stream("placement") as stream:
        for number, outage in enumerate(outages(placement_server), 1):
            with outage:
                site.home.set_domains(nobodys(number))
                site.wait_ill("placement")
                stream.wait_answers(some * 2)
            stream.wait_answers(some)
            wait_until(partial(shows, number))
    assert stream.setbacks == 0
    site.wait_well()
    stream.ledger.book.domains = dict(nobodys(3))
    site.confirm(stream)


def test_a_libvirtd_that_goes_away(site_with, libvirtd, some: int):
    site = site_with(uri=libvirtd.uri)
    with site.stream("libvirtd") as stream:
        stream.wait_answers(some)
        for outage in outages(libvirtd):
            with outage:
                site.wait_ill("hypervisor")
                refuses(site)
            stream.wait_answers(some)
    site.wait_well()
    site.confirm(stream)


def test_a_host_file_that_goes_away(site_with, some: int):
    site = site_with()
    file = site.home.daemon.host_file
    with site.stream("file") as stream:
        stream.wait_answers(some)
        gone = file.rename(file.with_name("away.xml"))
        wait_until(lambda: not site.ready())  # a file that is edited is away for a moment, too
        refuses(site)
        gone.rename(file)
        stream.wait_answers(some)
    site.wait_well()
    site.confirm(stream)
