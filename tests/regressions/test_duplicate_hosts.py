"""Two machines with one host name, and a database each: cloned machines, for example.

Their calls went to either of them in turn. A release that reached the wrong one was answered as
done, because an unknown claim counts as ended; both agents were healthy.
"""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_context.context import RequestContext

from rtagent.errors import DuplicateHost, NodeNotFound, RtAgentError
from rtagent.rpc.calls import UNANSWERED
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.host_lock import Attempt
from tests.servers import Placement, RabbitMQ
from tests.servers.daemon import Daemon, wait_until
from tests.support.rpc import Contender
from tests.support.workload.deployment import open_transport

CONTEXT = RequestContext(user_id="tester")
BRISK = {"report_interval": 1, "service_down_time": 60}


class Clones:
    """Two machines with one host name. :ivar first: an agent that runs. :ivar second: another."""

    def __init__(self, directory: Any, url: str, options: dict[str, object]) -> None:
        self.host = f"host-{uuid.uuid4()}"
        self.first, self.second = (
            Daemon(directory / name, url, config=self._config(options))
            for name in ("first", "second")
        )
        self._transport = open_transport(url)
        for name, value in options.items():
            self._transport.conf.set_override(name, value, group="oslo_messaging_rabbit")
        self.first.start().wait_ready()

    def _config(self, options: dict[str, object]) -> dict[str, dict[str, object]]:
        return {
            "DEFAULT": {"host": self.host, **BRISK},
            "oslo_messaging_rabbit": {"rabbit_interval_max": 1, **options},
        }

    def api(self, **options: Any) -> AgentAPI:
        return AgentAPI(self._transport, self.host, **{"timeout": 30, "attempts": 1, **options})

    def claim(self) -> str:
        return str(self.claimed()["uuid"])

    def claimed(self, _: int = 0) -> Any:
        instance = {"uuid": str(uuid.uuid4()), "flavor": {"vcpus": 1, "memory_mb": 16}}
        return self.api(attempts=5).instance_claim(CONTEXT, instance)

    def wait_known(self) -> None:
        """Wait until each agent reports the other."""
        wait_until(lambda: reports(self.first, self.second))
        wait_until(lambda: reports(self.second, self.first))

    def close(self) -> None:
        self.first.close()
        self.second.close()
        self._transport.cleanup()


def rpc(daemon: Daemon) -> tuple[str, str]:
    """Status and output of the part rpc."""
    (check,) = daemon.read("health")["checks"].get("rpc", [{"status": ""}])
    return check["status"], check.get("output", "")


def ready(daemon: Daemon) -> bool:
    """Whether the agent grants claims."""
    try:
        return bool(daemon.read("ready")["ready"])
    except DuplicateHost:
        return False


def reports(daemon: Daemon, other: Daemon) -> bool:
    try:
        status, output = rpc(daemon)
        named = (node_uuid(daemon), node_uuid(other), str(daemon.directory), str(other.directory))
    except (RtAgentError, FileNotFoundError):  # it has not started yet
        return False
    return status == "fail" and all(name in output for name in named)


def node_uuid(daemon: Daemon) -> str:
    return (daemon.directory / "compute_id").read_text().strip()


def held(daemon: Daemon) -> set[str]:
    return {claim["uuid"] for claim in daemon.read("claims")["claims"]}


def outcome(call: Callable[..., Any], *arguments: Any) -> str:
    try:
        call(CONTEXT, *arguments)
    except (RtAgentError, *UNANSWERED) as error:
        return type(error).__name__
    return "done"


@pytest.fixture
def clones_on(tmp_path, rabbitmq: RabbitMQ) -> Iterator[Callable[..., Clones]]:
    made: list[Clones] = []

    def make(virtual_host: str = "", **options: object) -> Clones:
        made.append(Clones(tmp_path, f"{rabbitmq.transport_url}{virtual_host}", options))
        return made[-1]

    yield make
    for clones in made:
        clones.close()


def check_nothing_is_answered_falsely(clones: Clones) -> None:
    first, api = clones.first, clones.api()
    claims = [clones.claim() for _ in range(4)]
    assert held(first) == set(claims)
    clones.second.start()
    clones.wait_known()

    for daemon in (first, clones.second):
        assert not ready(daemon)
        daemon.wait_logged(f"health of rpc is fail: two agents serve the host {clones.host}")
    instance = {"uuid": str(uuid.uuid4()), "flavor": {"vcpus": 1, "memory_mb": 16}}
    for _ in range(4):
        with pytest.raises(DuplicateHost, match="Give one of them"):
            api.instance_claim(CONTEXT, instance)
        assert outcome(api.release_claim, str(uuid.uuid4())) == "DuplicateHost"
        assert outcome(api.get_claims_for_instance, instance["uuid"]) == "DuplicateHost"
    released = {claim for claim in claims if outcome(api.release_claim, claim) == "done"}
    assert released == set(claims) - held(first)
    with pytest.raises(NodeNotFound):
        clones.api(node_uuid=str(uuid.uuid4())).ping(CONTEXT)


def test_two_agents_of_one_host_report_it_and_give_no_false_answer(clones_on):
    clones = clones_on()
    check_nothing_is_answered_falsely(clones)

    clones.second.terminate()
    wait_until(lambda: ready(clones.first) and rpc(clones.first) == ("pass", ""))
    assert outcome(clones.api().release_claim, str(uuid.uuid4())) == "done"
    assert clones.claim() in held(clones.first)


def test_placement_shows_a_host_of_two_agents_as_disabled_and_allocations_wait(clones_on):
    """Each agent refused claims, and Placement offered the host. A copy of an agent wrote the
    allocations of claims that had ended.
    """
    with Placement() as server:
        placement = {"auth_type": "admin_token", "endpoint": server.url, "token": server.token}
        clones = clones_on()
        first, admin = clones.first, server.client("1.38")
        first.terminate()
        first.configure({"placement": {**placement, "manage_allocations": "yes"}})
        first.start().wait_ready()
        claims = {claim["uuid"]: claim["owner_id"] for claim in map(clones.claimed, range(2))}

        def allocations(owner: str) -> bool:
            return bool(admin.get(f"/allocations/{owner}").json()["allocations"])

        def disabled() -> bool:
            traits = admin.get(f"/resource_providers/{node_uuid(first)}/traits").json()["traits"]
            return "COMPUTE_STATUS_DISABLED" in traits

        wait_until(lambda: all(map(allocations, claims.values())))
        assert not disabled()
        clones.second.start()
        clones.wait_known()
        wait_until(disabled)
        for claim in claims:
            while outcome(clones.api().release_claim, claim) != "done":
                pass  # the other agent has refused it
        assert held(first) == set()
        assert all(map(allocations, claims.values()))
        clones.second.terminate()
        wait_until(lambda: not disabled() and not any(map(allocations, claims.values())))


def test_two_agents_of_one_host_with_quorum_queues(rabbitmq: RabbitMQ, clones_on):
    rabbitmq.add_vhost("duplicates", "quorum")
    options = {"rabbit_quorum_queue": True, "rabbit_transient_quorum_queue": True}
    check_nothing_is_answered_falsely(clones_on("duplicates", **options))


def test_two_agents_of_one_host_after_a_restart_of_the_broker(rabbitmq: RabbitMQ, clones_on):
    """Both agents know of each other, and each releases its own claims. Either may be the first."""
    clones = clones_on()
    claims = {clones.claim() for _ in range(4)}
    clones.second.start()
    clones.wait_known()
    with rabbitmq.outage():
        pass

    brief, api = clones.api(timeout=5), clones.api()
    wait_until(lambda: outcome(brief.release_claim, str(uuid.uuid4())) == "DuplicateHost")
    clones.wait_known()
    left = set(claims)
    for _ in range(50):
        left -= {claim for claim in left if outcome(api.release_claim, claim) == "done"}
        assert held(clones.first) == left
        if not left:
            break
    assert not left


def test_an_agent_that_was_killed_serves_again_at_once(clones_on):
    clones = clones_on()
    claim = clones.claim()
    for _ in range(2):
        clones.first.kill()
        clones.first.start().wait_ready()
        assert outcome(clones.api(attempts=5).ping) == "done"
        wait_until(lambda: rpc(clones.first)[0] == "pass")
    assert held(clones.first) == {claim}
    assert "two agents" not in clones.first.log.read_text()


def test_an_agent_serves_soon_after_a_power_failure(rabbitmq: RabbitMQ, clones_on):
    """The broker still has the connections of the agent that lost power."""
    clones = clones_on()
    clones.first.kill()
    before = Contender(rabbitmq.transport_url, clones.host)
    wait_until(lambda: before.attempt() is Attempt.HELD)
    clones.first.start().wait_ready()
    wait_until(lambda: rpc(clones.first) == ("pass", ""))
    assert outcome(clones.api(attempts=5).release_claim, str(uuid.uuid4())) == "done"
    assert "two agents" not in clones.first.log.read_text()
    before.lock.close()


def test_a_release_at_a_node_of_another_uuid_is_refused(clones_on):
    clones = clones_on()
    claim = clones.claim()
    wrong = clones.api(node_uuid=str(uuid.uuid4()))
    assert outcome(wrong.release_claim, claim) == "NodeNotFound"
    assert held(clones.first) == {claim}
    assert outcome(clones.api(node_uuid=node_uuid(clones.first)).release_claim, claim) == "done"
    assert not held(clones.first)
