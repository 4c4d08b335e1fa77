"""Each server has outages under a stream of claims; the daemon recovers by itself."""

import random
from functools import partial
from uuid import UUID

import pytest

from rtagent.errors import HypervisorUnavailable
from tests.functional.outage.site import Site, outages, shutdown
from tests.servers.daemon import wait_until
from tests.support.workload.deployment import Domains
from tests.support.workload.ledger import OperationFactory

#: Of calls where no message is lost: a slow machine is no lost message.
PATIENT = {"timeout": 60, "attempts": 1}


@pytest.fixture
def some(long: bool) -> int:
    """How many calls are answered between two outages."""
    return 200 if long else 20


def unclaimed(number: int) -> Domains:
    """Return that many domains of one vCPU that have no claim."""
    return {str(UUID(int=n)): (1, 64) for n in range(number)}


def assert_refused(site: Site) -> None:
    """Assert that no claim is granted."""
    asked = OperationFactory(random.Random(7)).claim()
    with pytest.raises(HypervisorUnavailable):
        site.home.invoke(asked.method, **asked.document)


def test_outages_of_the_database(postgresql, site_with, some: int):
    """What differs by database is the store's: `tests/functional/db/test_outages.py`."""
    site = site_with(postgresql)
    with site.stream("database") as stream:
        stream.wait_answers(some)
        # Unlike other servers, one that is stopped tells its clients so.
        for outage in (shutdown(postgresql), *outages(postgresql)):
            with outage:
                site.wait_ill("store")
                assert site.home.daemon.read("nodes")["stale"]
            stream.wait_answers(some)
            site.checker.check(stream.ledger)
    site.wait_well()
    site.confirm(stream)


def test_outages_of_the_broker(site_with, rabbitmq, some: int):
    site = site_with(timeout=10, attempts=1)
    with site.stream("broker") as stream:
        stream.wait_answers(some)
        for outage in outages(rabbitmq):
            with outage:
                site.wait_ill("rpc")
                site.checker.check(stream.ledger)
            stream.wait_answers(some)
    site.wait_well()
    site.confirm(stream)


def test_outages_of_placement_fail_no_claim(site_with, placement_server, some: int):
    options = {"auth_type": "admin_token", "endpoint": placement_server.url, "token": "admin"}
    config = {
        "placement": {**options, "timeout": 2},
        # Nothing else is to fail a claim.
        "database": {"operation_timeout": 30},
        "libvirt": {"call_timeout": 60},
    }
    site = site_with(config=config, **PATIENT)  # a failed claim is not repeated
    uuid = (site.home.daemon.directory / "compute_id").read_text().strip()

    def shows(number: int) -> bool:
        path = f"/resource_providers/{uuid}/inventories"
        inventories = placement_server.client().get(path).json().get("inventories", {})
        return "VCPU" in inventories and inventories["VCPU"]["reserved"] == number

    wait_until(partial(shows, 0))
    with site.stream("placement") as stream:
        for number, outage in enumerate(outages(placement_server), 1):
            with outage:
                site.home.set_domains(unclaimed(number))
                site.wait_ill("placement")
                stream.wait_answers(some * 2)
            stream.wait_answers(some)
            wait_until(partial(shows, number))
    assert stream.retries == 0
    site.wait_well()
    stream.ledger.state.domains = dict(unclaimed(number))
    site.confirm(stream)


def test_outages_of_libvirtd(site_with, libvirtd, some: int):
    site = site_with(uri=libvirtd.uri, **PATIENT)
    with site.stream("libvirtd") as stream:
        stream.wait_answers(some)
        for outage in outages(libvirtd):
            with outage:
                site.wait_ill("hypervisor")
                assert_refused(site)
            stream.wait_answers(some)
    site.wait_well()
    site.confirm(stream)


def test_spoiled_file_of_a_simulated_host(site_with, some: int):
    site = site_with(**PATIENT)
    file = site.home.daemon.host_file
    with site.stream("file") as stream:
        stream.wait_answers(some)
        for content in (None, b"<node>\xe9</node>"):
            good = file.rename(file.with_name("away.xml"))
            if content is not None:  # text that is not in UTF-8
                file.write_bytes(content)
            # Not at once: while a file is edited it is missing for a moment, too.
            wait_until(lambda: not site.ready())
            assert_refused(site)
            good.replace(file)
            stream.wait_answers(some)
    site.wait_well()
    site.confirm(stream)
