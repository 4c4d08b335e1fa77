"""A host with QEMU: callers run its domains, and its libvirtd is killed, hung and restarted."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from oslo_context.context import RequestContext

from rtagent.errors import RtAgentError
from rtagent.rpc.calls import UNANSWERED
from rtagent.rpc.client import AgentAPI
from tests.chaos.callers.domains import Domains
from tests.chaos.history import History
from tests.chaos.nemesis import FAULTS
from tests.chaos.observation.domains import domains_below
from tests.chaos.world.features import QEMU, has_qemu
from tests.chaos.world.world import World
from tests.servers.daemon import wait_until

pytestmark = pytest.mark.skipif(not has_qemu(), reason="libvirtd needs QEMU, and root")
CONTEXT = RequestContext(user_id="tester", roles=["admin"])
HOST = "host-1"


class Site:
    """A world whose only host has QEMU."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.transport = world.open_transport()
        self.agent = AgentAPI(self.transport, HOST, timeout=20, attempts=1)
        self.history = History(world.directory / "history.jsonl")
        self.domains = Domains({}, world.qemu, self.history)

    def audited(self) -> bool:
        """Return whether the agent can observe its host."""
        try:
            return bool(self.agent.update_available_resource(CONTEXT)["complete"])
        except (*UNANSWERED, RtAgentError):
            return False

    def wait_audited(self) -> None:
        wait_until(self.audited, 240)

    def call(self, method: str, **arguments: Any) -> Any:
        """Call the agent until it answers: it may notice an end of a fault later than the test."""
        replies: list[Any] = []
        operation = str(uuid.uuid4())

        def answered() -> bool:
            with contextlib.suppress(*UNANSWERED, RtAgentError):
                call = getattr(self.agent, method)
                replies.append(call(CONTEXT, operation_id=operation, **arguments))
            return bool(replies)

        wait_until(answered, 240)
        return replies[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("world")
    with World(directory, 1, hosts=1, database="sqlite", features={QEMU}) as world:
        site = Site(world)
        yield site
        site.transport.cleanup()
        site.history.close()


@pytest.fixture
def guest(site: Site) -> Iterator[str]:
    """The uuid of a guest with a claim and a domain."""
    site.wait_audited()
    owner = str(uuid.uuid4())
    instance = {"uuid": owner, "flavor": {"vcpus": 1, "memory_mb": 64}}
    claim = site.call("instance_claim", instance=instance)
    active = site.call("activate_claim", claim_uuid=claim["uuid"])
    site.domains.start(HOST, active)
    yield owner
    site.domains.stop(HOST, owner)
    site.wait_audited()
    site.call("release_claim", claim_uuid=claim["uuid"])


def running(site: Site) -> list[str]:
    return [each["uuid"] for each in domains_below(site.world.qemu[HOST]) if each["active"]]


def test_the_domain_of_a_claim_is_as_claimed_and_outlives_libvirtd(site: Site, guest: str):
    (seen,) = domains_below(site.world.qemu[HOST])
    assert (seen["uuid"], seen["active"], seen["vcpus"], seen["memory_mb"]) == (guest, True, 1, 64)
    wait_until(site.audited)
    node = site.world.agents[HOST].read("nodes", HOST)["node"]
    assert (node["orphans"], node["drifts"]) == (0, 0)
    outlives(site, guest, "kill-libvirtd")


@pytest.mark.parametrize("name", ["pause-libvirtd", "stop-libvirtd"])
def test_domains_outlive_a_fault_of_libvirtd(request: pytest.FixtureRequest, name: str, long: bool):
    if not long:  # before a world is made
        pytest.skip("takes a world of its own for each worker: --long")
    guest: str = request.getfixturevalue("guest")
    outlives(request.getfixturevalue("site"), guest, name)


def outlives(site: Site, guest: str, name: str) -> None:
    """Inject a fault that the agent notices; the domain must run on."""
    assert FAULTS[name].applies(site.world)
    assert not FAULTS["unreachable-hypervisor"].applies(site.world)
    fault = FAULTS[name]()
    try:
        fault.begin(site.world, Random(1))
        wait_until(lambda: not site.audited())
    finally:
        fault.end(site.world)
    site.wait_audited()
    assert running(site) == [guest]
