"""Each server goes away and comes back, under a stream of claims; all ends well by itself."""

import random
from uuid import UUID

import pytest

from rtagent.errors import HypervisorUnavailable
from tests.functional.outage.site import WAYS, Site, away
from tests.servers.daemon import wait_until
from tests.stream.deed import Writer

#: A domain for which nobody claimed anything.
NOBODYS = str(UUID(int=7))


@pytest.fixture
def some(long: bool) -> int:
    """How many deeds are done before an outage, and after it."""
    return 200 if long else 20


def refuses(site: Site) -> None:
    """Nothing new is granted."""
    asked = Writer(random.Random(7)).claim()
    with pytest.raises(HypervisorUnavailable):
        site.home.invoke(asked.method, **asked.document)


@pytest.mark.parametrize(
    ("database", "way"), [*(("postgresql", way) for way in WAYS), ("mariadb", "kill")]
)
def test_a_database_that_goes_away(request, site_with, some: int, database: str, way: str):
    server = request.getfixturevalue(database)
    site = site_with(server)
    with site.stream(way) as stream:
        stream.wait_answers(some)
        with away(server, way):
            site.wait_ill("store")
            assert site.home.daemon.read("nodes")["stale"]
        stream.wait_answers(some)
        site.judge.judge(stream.ledger)
    site.wait_well()
    site.confirm(stream)


@pytest.mark.parametrize("way", WAYS)
def test_a_broker_that_goes_away(site_with, rabbitmq, some: int, way: str):
    site = site_with()
    with site.stream(way) as stream:
        stream.wait_answers(some)
        with away(rabbitmq, way):
            stream.wait_silence(2)
            site.judge.judge(stream.ledger)
        stream.wait_answers(some)
    site.wait_well()
    site.confirm(stream)


@pytest.mark.parametrize("way", WAYS)
def test_a_placement_that_goes_away_fails_no_claim(
    site_with, placement_server, some: int, way: str
):
    options = {"auth_type": "admin_token", "endpoint": placement_server.url, "token": "admin"}
    config = {"placement": {**options, "timeout": 1}}
    site = site_with(config=config, timeout=60, attempts=1)  # a claim that fails is seen
    uuid = (site.home.daemon.directory / "compute_id").read_text().strip()

    def reserved() -> int:
        path = f"/resource_providers/{uuid}/inventories"
        inventories = placement_server.client().get(path).json().get("inventories", {})
        return int(inventories.get("VCPU", {"reserved": -1})["reserved"])

    wait_until(lambda: reserved() == 0)
    with site.stream(way) as stream:
        stream.wait_answers(some)
        with away(placement_server, way):
            site.home.set_domains({NOBODYS: (3, 64)})
            site.wait_ill("placement")
            stream.wait_answers(some * 5)
        stream.wait_answers(some)
        wait_until(lambda: reserved() == 3)
    assert stream.setbacks == 0
    site.wait_well()
    stream.ledger.book.domains = {NOBODYS: (3, 64)}
    site.confirm(stream)


@pytest.mark.parametrize("way", WAYS)
def test_a_libvirtd_that_goes_away(site_with, libvirtd, some: int, way: str):
    site = site_with(uri=libvirtd.uri)
    with site.stream(way) as stream:
        stream.wait_answers(some)
        with away(libvirtd, way):
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
