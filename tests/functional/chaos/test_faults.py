"""A world can be broken, and each fault is seen by its agents; claims are granted after its end."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from oslo_context.context import RequestContext

from rtagent.db.engine import open_engine
from rtagent.errors import RtAgentError
from rtagent.rpc.calls import UNANSWERED
from rtagent.rpc.client import AgentAPI
from tests.chaos.callers.domains import Domains
from tests.chaos.history import History
from tests.chaos.nemesis import FAULTS
from tests.chaos.nemesis.fault import Fault, NotYet
from tests.chaos.nemesis.restore import Restore
from tests.chaos.observation.orphans import delete_orphans
from tests.chaos.world.features import KEYS, TLS
from tests.chaos.world.world import DATABASES, World
from tests.servers import Placement
from tests.servers.daemon import wait_until
from tests.support.store_copies import SqlCopies

CONTEXT = RequestContext(user_id="tester", roles=["admin"])
HOST = "host-1"

#: The faults during which no claim is granted. The others have no effect on claims.
HOLDS_UP = {
    *("pause-agent", "pause-broker", "stop-broker", "memory-alarm-broker", "cut-link-broker"),
    *("partition-link-broker", "hung-commits", "pause-database", "partition-link-database"),
    *("unreachable-hypervisor", "garbled-hypervisor", "read-only-database", "stop-database"),
    *("kill-database", "cut-link-database", "connection-limit", "kill-agent", "stop-agent"),
    *("kill-broker", "locked-database", "failover", "restore-database", "disk-full"),
    *("revoked-key", "expired-key", "expired-certificate", "clock-step"),
}
#: The faults that may, by what they draw.
MAY_HOLD_UP = {"slow-link-broker", "slow-link-database"}
#: The ones of a usual run; --long: all.
CHEAP = {
    *("clock-step", "disk-full", "failover", "garbled-hypervisor", "read-only-database"),
    *("expired-certificate", "expired-key", "revoked-key"),
}


class Site:
    """A world with one host, and calls of its agent. :ivar domains: what runs there."""

    def __init__(self, world: World, history: History) -> None:
        self.world = world
        file = world.agents[HOST].directory / "host.xml"
        self.domains = Domains({HOST: file}, world.qemu, history)
        self._transport = world.open_transport()

    def claim(self, timeout: float = 5.0) -> Any:
        """Claim a little, without a retry."""
        agent = AgentAPI(self._transport, HOST, timeout=timeout, attempts=1)
        instance = {"uuid": str(uuid.uuid4()), "flavor": {"vcpus": 1, "memory_mb": 1}}
        return agent.instance_claim(CONTEXT, instance)

    def granted(self) -> bool:
        """Return whether a claim is granted."""
        try:
            claim = self.claim()
        except (*UNANSWERED, RtAgentError):
            return False
        with contextlib.suppress(*UNANSWERED, RtAgentError):
            agent = AgentAPI(self._transport, HOST, timeout=5, attempts=1)
            agent.release_claim(CONTEXT, claim_uuid=claim["uuid"])
        return True

    def wait_granted(self) -> None:
        wait_until(self.granted, 240)

    def wait_refused(self) -> None:
        """Wait until a claim is not granted. An agent may notice a fault some time later."""
        wait_until(lambda: not self.granted())

    def agent(self) -> AgentAPI:
        return AgentAPI(self._transport, HOST, timeout=30, attempts=1)

    def allocated(self) -> set[str]:
        """Return the consumers with allocations at the host's root provider."""
        uuid = self.agent().get_node(CONTEXT)["node"]["uuid"]
        placement = self.world.placement.server
        assert isinstance(placement, Placement)
        found = placement.client().get(f"/resource_providers/{uuid}/allocations")
        return set(found.json()["allocations"])

    def close(self) -> None:
        self._transport.cleanup()


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("world")
    with World(directory, 1, hosts=1, database=request.param, features={KEYS, TLS}) as world:
        site = Site(world, History(directory / "history.jsonl"))
        yield site
        site.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    long = metafunc.config.getoption("long")
    databases = DATABASES if long else ("postgresql",)
    metafunc.parametrize("site", databases, indirect=True, scope="module")
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", sorted(FAULTS if long else CHEAP))


def test_parts_can_be_cut_off_and_killed(site: Site):
    agent, link = site.world.local_agent(HOST), site.world.links[HOST, "broker"]
    assert not agent.read("nodes")["stale"]
    assert link.connections > 0
    link.cut()
    assert link.connections == 0
    link.heal()
    wait_until(lambda: link.connections > 0)
    agent.process.pause()
    assert agent.process.paused
    agent.process.kill()
    assert not agent.process.running
    assert not agent.process.ensure_running()
    agent.process.start()
    agent.daemon.wait_ready()


def test_a_fault_is_seen_and_ends(site: Site, name: str):
    if not FAULTS[name].applies(site.world):
        pytest.skip("of another world, or needs the rights of root")
    site.wait_granted()
    fault = FAULTS[name]()
    try:
        fault.begin(site.world, Random(1))
        assert fault.target
        if name in HOLDS_UP:
            site.wait_refused()
        elif name not in MAY_HOLD_UP:
            site.wait_granted()
    finally:
        fault.end(site.world)
    site.wait_granted()


def test_what_a_restored_copy_left_in_placement_can_be_deleted(site: Site):
    engine = open_engine(site.world.agent_database_url(HOST), 30)
    copies = SqlCopies(engine)
    copy = copies.take()
    claim = site.claim(30)
    lost = claim["owner_id"]
    site.agent().activate_claim(CONTEXT, claim_uuid=claim["uuid"])
    site.domains.start(HOST, claim)
    wait_until(lambda: lost in site.allocated())
    copies.put(copy)
    engine.dispose()
    wait_until(lambda: site.agent().get_restore(CONTEXT)["restore"] is not None)
    restore = site.agent().get_restore(CONTEXT)["restore"]
    site.agent().accept_restore(CONTEXT, revision=restore["revision"])
    config_file = site.world.local_agent(HOST).daemon.config_file
    site.agent().update_available_resource(CONTEXT)
    assert delete_orphans(config_file) == {lost}
    assert lost in site.allocated()
    site.wait_granted()
    site.domains.stop(HOST, lost)
    site.agent().update_available_resource(CONTEXT)
    assert not delete_orphans(config_file)
    assert lost not in site.allocated()


class ClaimsMeanwhile(Random):
    """Draws no time between a copy and its restoration, but lets a claim be granted then."""

    def __init__(self, site: Site) -> None:
        super().__init__(1)
        self._site = site

    def uniform(self, a: float, b: float) -> float:
        self._site.wait_granted()
        return 0.0


def test_a_restored_copy_is_accepted_after_the_agent_has_noticed_it(site: Site):
    fault, link = Restore(), site.world.links[HOST, "database"]
    fault.begin(site.world, ClaimsMeanwhile(site))
    link.cut()
    with pytest.raises(NotYet):
        fault.end(site.world)
    link.heal()
    wait_until(lambda: ends(fault, site.world))
    assert fault.details["reported"]
    site.wait_granted()
    delete_orphans(site.world.local_agent(HOST).daemon.config_file)


def ends(fault: Fault, world: World) -> bool:
    try:
        fault.end(world)
    except NotYet:
        return False
    return True
