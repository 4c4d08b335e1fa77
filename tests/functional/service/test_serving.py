"""The daemon with its clients, its broker and Placement."""

import json
import threading
import uuid

import oslo_messaging
import pytest
from oslo_context.context import RequestContext
from sqlalchemy import create_engine, select, update

from rtagent.db.claim_rows import CLAIMS
from rtagent.db.schema import claims
from rtagent.errors import NodeNotReady, RtAgentError
from rtagent.rpc.client import AgentAPI
from rtagent.virt.simulate import Machine, domain_xml, edit, simulate
from tests.servers.daemon import Daemon, wait_until
from tests.support.guests import enacting
from tests.support.pci_hosts import GPU_IDS, VF_IDS

CONTEXT = RequestContext(user_id="tester", roles=["operator"])


@pytest.fixture
def daemon(tmp_path, rabbitmq):
    made = Daemon(tmp_path, rabbitmq.transport_url)
    made.configure({"DEFAULT": {"host": f"agent-{uuid.uuid4()}"}})
    yield made
    made.close()


def instance(**specs: str) -> dict:
    flavor = {"vcpus": 1, "memory_mb": 16, "root_gb": 0, "extra_specs": specs}
    return {"uuid": str(uuid.uuid4()), "flavor": flavor}


def claim(agent: AgentAPI) -> str:
    return str(agent.instance_claim(CONTEXT, instance())["uuid"])


def held(daemon: Daemon) -> set[str]:
    return {claim["uuid"] for claim in daemon.read("claims")["claims"]}


def rpc_status(daemon: Daemon) -> str:
    checks = daemon.read("health")["checks"]
    return str(checks["rpc"][0]["status"]) if "rpc" in checks else ""


def test_state_that_breaks_an_invariant_is_served_but_nothing_is_granted(daemon, agent):
    daemon.start().wait_ready()
    uuid = claim(agent)
    daemon.kill()
    checked = CLAIMS.checked
    engine = create_engine(f"sqlite:///{daemon.directory}/rtagent.sqlite")
    with engine.begin() as connection:  # as by a defect: the row has its digest
        connection.execute(update(claims).values(revision=1000000))
        values = checked.read(connection.execute(select(*checked.selected)).one()).values
        connection.execute(update(claims).values(row_digest=checked.digest(values)))
    engine.dispose()

    daemon.start()

    daemon.wait_notified(f"STATUS=not granting (claim {uuid} is newer than the state)")
    assert daemon.read("health")["checks"]["tracker"][0]["status"] == "fail"
    assert held(daemon) == {uuid}
    with pytest.raises(NodeNotReady, match="granting has stopped"):
        claim(agent)


def test_reads_are_served_before_the_topology_is_known_but_no_claim_is_granted(daemon, agent):
    away = daemon.storage.rename(daemon.directory / "unmounted")
    daemon.start()
    daemon.wait_notified("STATUS=not granting (the host's topology is not known yet")
    wait_until(lambda: rpc_status(daemon) == "pass")
    with pytest.raises(NodeNotReady):
        claim(agent)
    assert agent.ping(CONTEXT)["host"] == daemon.host
    assert agent.get_claims_for_host(CONTEXT)["claims"] == []

    away.rename(daemon.storage)
    daemon.wait_ready()

    assert claim(agent) in held(daemon)


def test_an_interpreter_with_other_hashes_finds_what_another_one_wrote_and_ends(daemon, agent):
    """Forked daemons have the same hashes, and no interpreter of their own that ends."""
    simulate(daemon.host_file, Machine(gpus=1, nics=1, vfs=2))
    aliases = [{"name": "gpu", **GPU_IDS}, {"name": "vf", **VF_IDS, "device_type": "type-VF"}]
    specs = {"device_spec": json.dumps([GPU_IDS, VF_IDS]), "alias": json.dumps(aliases)}
    daemon.configure({"pci": specs})
    daemon.start().wait_ready()
    claim = agent.instance_claim(CONTEXT, instance(**{"pci_passthrough:alias": "gpu:1,vf:2"}))
    agent.activate_claim(CONTEXT, claim_uuid=claim["uuid"])
    with edit(daemon.host_file) as world:
        world.add_domain(enacting(domain_xml(claim["owner_id"], vcpus=1, memory_mb=16), claim))
    for seed in ("1", "2"):
        before = agent.get_claim(CONTEXT, claim["uuid"])["claim"]
        assert daemon.terminate() == 0
        daemon.start(PYTHONHASHSEED=seed).wait_ready()
        assert agent.get_claim(CONTEXT, claim["uuid"])["claim"] == before
        assert daemon.count_logged("damaged") == 0
    assert daemon.terminate() == 0


def test_calls_in_flight_are_finished_before_the_daemon_stops(daemon, agent):
    daemon.start().wait_ready()
    granted, enough, over = set(), threading.Event(), threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                granted.add(claim(agent))
            except (RtAgentError, oslo_messaging.MessagingTimeout):
                continue
            if len(granted) > 20:
                enough.set()

    callers = [threading.Thread(target=ask) for _ in range(4)]
    for caller in callers:
        caller.start()
    assert enough.wait(240)

    assert daemon.terminate() == 0
    over.set()
    daemon.start().wait_ready()
    for caller in callers:
        caller.join()

    assert granted <= held(daemon)
    assert "left running" not in daemon.log.read_text()


def test_daemon_becomes_ready_and_stops_without_the_broker(daemon, agent, rabbitmq):
    daemon.configure({"oslo_messaging_rabbit": {"rabbit_interval_max": 1}})
    with rabbitmq.outage():
        daemon.start().wait_ready()
        wait_until(lambda: rpc_status(daemon) == "warn")
    wait_until(lambda: rpc_status(daemon) == "pass")
    assert claim(agent) in held(daemon)

    with rabbitmq.outage():
        assert daemon.terminate() == 0


def test_placement_shows_the_host_and_its_changes(daemon, agent, placement):
    daemon.configure({"placement": placement.login})
    daemon.start().wait_ready()
    uuid = (daemon.directory / "compute_id").read_text().strip()

    def shown(part: str) -> dict:
        return placement.client().get(f"/resource_providers/{uuid}/{part}").json()

    def disabled() -> bool:
        return "COMPUTE_STATUS_DISABLED" in shown("traits").get("traits", ())

    wait_until(lambda: "MEMORY_MB" in shown("inventories").get("inventories", ()))
    assert not disabled()

    agent.set_service(CONTEXT, disabled=True, disabled_reason="maintenance")
    wait_until(disabled)
    agent.set_service(CONTEXT, disabled=False)
    wait_until(lambda: not disabled())
    agent.drain_node(CONTEXT, "new disks")
    wait_until(disabled)
    agent.undrain_node(CONTEXT)
    wait_until(lambda: not disabled())

    away = daemon.host_file.rename(daemon.directory / "away.xml")
    wait_until(disabled)
    away.rename(daemon.host_file)
    wait_until(lambda: not disabled())

    daemon.configure({"DEFAULT": {"reserved_host_memory_mb": 4096}})
    daemon.reload()
    wait_until(lambda: shown("inventories")["inventories"]["MEMORY_MB"]["reserved"] == 4096)
