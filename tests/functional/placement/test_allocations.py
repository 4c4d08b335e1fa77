"""A daemon that writes the allocations of its claims to a real Placement, also in bad times."""

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import oslo_messaging
import pytest
from oslo_context.context import RequestContext

from rtagent.errors import AllocationNotWritten, ClaimExpired
from rtagent.rpc.client import AgentAPI
from rtagent.testing import failpoints
from rtagent.virt.simulate import Machine, simulate
from tests.functional.placement.conftest import PATIENCE, MirroredNode
from tests.servers.daemon import Daemon, wait_until
from tests.servers.http_relay import Fault, HttpRelay
from tests.support.hosts import uid
from tests.support.workload.deployment import open_transport

CONTEXT = RequestContext(user_id="caller", overwrite=False)
#: Seconds; a call that waits for Placement with `strict`.
ALLOCATION_TIMEOUT = 10
#: Seconds; an attempt to write an allocation to a Placement that hangs.
TIMEOUT = 5
#: How many claims are made while Placement is away.
STREAM = 12


class Cloud:
    """A daemon, Placement behind a relay, and a client of the daemon."""

    def __init__(self, node: MirroredNode, directory, url: str) -> None:
        self.node = node
        self.relay = HttpRelay(node.server.url)
        directory.mkdir()
        simulate(directory / "host.xml", Machine(hostname=node.name))
        placement = {
            **node.server.login,
            "endpoint": self.relay.url,
            "timeout": TIMEOUT,
            "manage_allocations": "yes",
            "allocation_timeout": ALLOCATION_TIMEOUT,
        }
        default = {"host": node.name, "cpu_allocation_ratio": 64}
        self.daemon = Daemon(directory, url, config={"placement": placement, "DEFAULT": default})
        self._transport = open_transport(url)
        self.api = AgentAPI(self._transport, node.name, timeout=PATIENCE)
        self.once = AgentAPI(self._transport, node.name, timeout=10, attempts=1)

    def start(self, **environment: str) -> None:
        self.daemon.start(**environment).wait_ready()
        self.node.uuid = (self.daemon.directory / "compute_id").read_text().strip()

    def close(self) -> None:
        self._transport.cleanup()
        self.daemon.close()
        self.relay.close()

    def set_mode(self, mode: str) -> None:
        """Reload with this ``manage_allocations``."""
        self.daemon.configure({"placement": {"manage_allocations": mode}})
        self.daemon.reload()
        self.daemon.wait_notified("READY=1")

    def wait_managed(self) -> None:
        """Wait until new claims have rows: after a reload the next audit sets the policy."""

        def managed() -> bool:
            owner = self.claim()["owner_id"]
            return owner in self.rows() or owner in self.allocated()

        wait_until(managed, PATIENCE)

    def instance(self):
        flavor = {"vcpus": 1, "memory_mb": 8, "root_gb": 0}
        return {"uuid": uid(), "project_id": "p1", "user_id": "u1", "flavor": flavor}

    def claim(self, api: AgentAPI | None = None):
        return (api or self.api).instance_claim(CONTEXT, self.instance())

    def release(self, claim) -> None:
        self.api.release_claim(CONTEXT, claim["uuid"])

    def release_all(self) -> None:
        for claim in self.api.get_claims_for_host(CONTEXT)["claims"]:
            self.release(claim)
        self.wait_converged()

    def owners(self) -> set[str]:
        claims = self.api.get_claims_for_host(CONTEXT)["claims"]
        return {claim["owner_id"] for claim in claims}

    def allocated(self) -> dict[str, dict[str, int]]:
        """What Placement has, by consumer."""
        found = self.node.admin.get(f"/resource_providers/{self.node.uuid}/allocations").json()
        return {uuid: part["resources"] for uuid, part in found.get("allocations", {}).items()}

    def rows(self) -> set[str]:
        """The consumers in the outbox, in the database."""
        path = self.daemon.directory / "rtagent.sqlite"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return {
                row[0] for row in database.execute("SELECT consumer_uuid FROM allocation_outbox")
            }

    def wait_converged(self) -> None:
        wait_until(lambda: self.allocated().keys() == self.owners(), PATIENCE)
        wait_until(lambda: not self.rows(), PATIENCE)
        assert all(each == {"VCPU": 1, "MEMORY_MB": 8} for each in self.allocated().values())

    def health(self) -> dict[str, str]:
        checks = self.daemon.read("health")["checks"]
        return {name: found[0]["status"] for name, found in checks.items()}

    def interrupt(self, kind: str) -> None:
        if kind == "stopped":
            self.node.server.stop()
        elif kind == "slow":
            self.relay.always = Fault.HANGING
        else:
            self.relay.always = Fault.NONSENSE

    def resume(self) -> None:
        self.relay.heal()
        self.node.server.start()


@pytest.fixture(scope="module")
def cloud(server, rabbitmq_server, tmp_path_factory) -> Iterator[Cloud]:
    server.start()
    directory = tmp_path_factory.mktemp("allocations")
    node = MirroredNode(server, directory)
    cloud = Cloud(node, directory / "agent", rabbitmq_server.transport_url)
    cloud.start()
    yield cloud
    cloud.close()


@pytest.fixture(autouse=True)
def nothing_is_left(cloud):
    yield
    cloud.resume()
    if not cloud.daemon.running:
        cloud.start()
    cloud.set_mode("yes")
    cloud.wait_managed()
    cloud.release_all()


def test_a_claim_is_one_request_with_the_id_of_its_call(cloud):
    first = cloud.claim()
    cloud.wait_converged()  # the inventories have been published, too
    caller = RequestContext(global_request_id=f"req-{uid()}", overwrite=False)

    def life():
        claim = cloud.api.instance_claim(caller, cloud.instance())
        cloud.wait_converged()
        cloud.api.activate_claim(caller, claim["uuid"])
        cloud.api.renew_claim(caller, claim["uuid"])
        cloud.release(claim)
        cloud.wait_converged()
        assert cloud.owners() == {first["owner_id"]}

    found = [each for each in cloud.node.requests_of(life) if each.method != "GET"]
    assert [(each.method, each.status) for each in found] == [("PUT", 204)] * 2
    assert all(each.path.startswith("/allocations/") for each in found)
    assert found[0].request_id == caller.global_id


@pytest.mark.parametrize("kind", ["stopped", "slow"])
def test_claims_go_on_while_placement_is_away_and_none_is_lost(cloud, kind):
    cloud.interrupt(kind)
    began = time.monotonic()
    made = [cloud.claim() for _ in range(STREAM)]
    seconds = time.monotonic() - began
    owners = {claim["owner_id"] for claim in made}
    assert cloud.rows() == owners
    wait_until(lambda: cloud.health().get("allocation_outbox") == "warn", PATIENCE)
    cloud.release(made.pop())
    cloud.daemon.kill()
    assert cloud.rows() == owners
    cloud.resume()
    cloud.start()
    cloud.wait_converged()
    assert len(cloud.owners()) == STREAM - 1
    wait_until(lambda: cloud.health()["allocation_outbox"] == "pass", PATIENCE)
    # An outage does not delay claims; the bound is generous, because machines stand still.
    assert seconds < STREAM * TIMEOUT


@pytest.mark.parametrize("kind", ["slow", "nonsense"])
def test_no_claim_without_its_allocation_is_answered_with_strict(cloud, kind):
    cloud.set_mode("strict")
    first = cloud.claim()
    assert cloud.allocated()[first["owner_id"]] == {"VCPU": 1, "MEMORY_MB": 8}
    cloud.interrupt(kind)

    def attempt(_):
        operation = uid()
        with pytest.raises(AllocationNotWritten) as refused:
            cloud.api.instance_claim(CONTEXT, cloud.instance(), operation_id=operation)
        assert refused.value.kwargs["claim_uuid"] == operation
        with pytest.raises(ClaimExpired):
            cloud.api.activate_claim(CONTEXT, operation)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(attempt, range(4)))
    assert cloud.owners() == {first["owner_id"]}
    cloud.resume()
    cloud.wait_converged()
    second = cloud.claim()
    assert second["owner_id"] in cloud.allocated()


def test_a_repeat_of_a_call_that_waits_joins_it(cloud):
    cloud.set_mode("strict")
    cloud.wait_converged()
    cloud.relay.fail(0, Fault.ERROR)  # so that the first write is repeated a second later
    instance, operation = cloud.instance(), uid()

    def create(_):
        return cloud.api.instance_claim(CONTEXT, instance, operation_id=operation)["uuid"]

    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(create, range(3))) == {operation}
    assert instance["uuid"] in cloud.allocated()


def test_allocations_of_claims_from_before_are_written_and_unwritten_ones_dropped(cloud):
    cloud.set_mode("no")
    old = [cloud.claim() for _ in range(2)]
    cloud.set_mode("yes")
    wait_until(lambda: {each["owner_id"] for each in old} <= cloud.allocated().keys(), PATIENCE)
    cloud.interrupt("nonsense")
    cloud.claim()
    assert cloud.rows()
    wait_until(lambda: cloud.health().get("allocation_outbox") == "warn", PATIENCE)
    cloud.set_mode("no")
    wait_until(lambda: not cloud.rows(), PATIENCE)
    cloud.daemon.wait_logged("are left to others, because [placement] manage_allocations is no")


@pytest.mark.parametrize("point", ["commit.outbox", "commit.after"])
def test_a_claim_and_its_row_are_one_transaction(cloud, point):
    cloud.daemon.terminate()
    cloud.start(**{failpoints.VARIABLE: f"{point}/instance_claim"})
    cloud.interrupt("nonsense")
    with suppress(oslo_messaging.MessagingTimeout):
        cloud.claim(cloud.once)
    cloud.daemon.wait()
    assert len(cloud.rows()) == (point == "commit.after")
    cloud.resume()
    cloud.start()
    assert len(cloud.owners()) == (point == "commit.after")
    cloud.wait_converged()


def test_managed_allocations_need_a_placement(cloud):
    cloud.daemon.terminate()
    cloud.daemon.configure({"placement": {"auth_type": ""}})
    try:
        cloud.daemon.start()
        assert cloud.daemon.wait() == 78
        cloud.daemon.wait_logged("auth_type")
    finally:
        cloud.daemon.configure({"placement": {"auth_type": "admin_token"}})
