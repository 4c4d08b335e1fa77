"""Requests to Placement carry the global request id of the call that caused them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_context.context import RequestContext

from rtagent.rpc.client import AgentAPI
from rtagent.virt.simulate import Machine, domain_xml, edit, simulate
from tests.functional.placement.conftest import PATIENCE, MirroredNode
from tests.functional.placement.test_command import Agent, options
from tests.servers.daemon import Daemon
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_0, GPU_IDS
from tests.support.workload.deployment import open_transport


@pytest.fixture
def agent(node: MirroredNode, tmp_path: Path, rabbitmq) -> Iterator[Agent]:
    """A daemon that publishes two GPUs."""
    (tmp_path / "agent").mkdir()
    simulate(tmp_path / "agent" / "host.xml", Machine(gpus=2, hostname=node.name))
    pci = {"device_spec": json.dumps(GPU_IDS), "report_in_placement": True}
    config = {"placement": options(node.server), "DEFAULT": {"host": node.name}, "pci": pci}
    daemon = Daemon(tmp_path / "agent", rabbitmq.transport_url, config=config)
    agent = Agent(daemon, node)
    try:
        agent.start()
        yield agent
    finally:
        daemon.close()


def test_a_call_and_its_requests_have_one_request_id(agent, rabbitmq):
    transport = open_transport(rabbitmq.transport_url)
    api = AgentAPI(transport, agent.daemon.host, timeout=PATIENCE)
    caller = RequestContext(roles=["operator"], global_request_id=f"req-{uid(7)}", overwrite=False)
    other = RequestContext(roles=["operator"], global_request_id=f"req-{uid(8)}", overwrite=False)
    node = agent.node

    def requests_of(action):
        found = node.requests_of(lambda: (action(), synced()))
        return {each.request_id for each in found if each.method == "PUT"}

    def synced():
        assert node.eventually(lambda: agent.rows() == [])

    try:
        quarantined = requests_of(lambda: api.quarantine_pci_device(caller, GPU_0, "it is hot"))
        assert quarantined == {caller.global_id}
        assert requests_of(lambda: api.clear_pci_device(other, GPU_0)) == {other.global_id}

        def add_domain():
            with edit(agent.daemon.host_file) as world:
                world.add_domain(domain_xml(uid(), vcpus=1, memory_mb=64))

        before = node.inventories["MEMORY_MB"]["reserved"]
        increased = lambda: node.inventories["MEMORY_MB"]["reserved"] > before  # noqa: E731
        (own,) = requests_of(lambda: (add_domain(), node.eventually(increased)))
        assert own.startswith("req-") and own not in (caller.global_id, other.global_id)
    finally:
        transport.cleanup()
