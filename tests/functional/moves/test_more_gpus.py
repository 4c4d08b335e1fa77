"""A guest with one GPU is given two, and goes back to one: its claims, and its document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from lxml import etree
from oslo_context.context import RequestContext

from rtagent.errors import ComputeResourcesUnavailable
from rtagent.rpc.client import AgentAPI
from rtagent.virt.simulate import Machine, domain_xml, edit, host_uri, simulate
from tests.functional.cli.shell import run
from tests.servers.daemon import Daemon
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS

NAME = "QuadroM4000-video"
ALIAS = {"name": NAME, **GPU_IDS, "device_type": "type-PCI"}
CONTEXT = RequestContext(user_id="conductor", roles=["operator"], overwrite=False)


class Host:
    """A host with two GPUs, its agent, and the conductor that moves guests there."""

    def __init__(self, directory: Path, transport: oslo_messaging.RPCTransport) -> None:
        directory.mkdir()
        self.directory, self.file = directory, directory / "host.xml"
        simulate(self.file, Machine(gpus=2, hostname=directory.name))
        self.daemon = Daemon(
            directory,
            transport.conf.transport_url,
            uri=host_uri(self.file),
            config={
                "DEFAULT": {"host": f"{directory.name}-{uid()}", "update_resources_interval": -1},
                "pci": {"device_spec": json.dumps(GPU_IDS), "alias": json.dumps(ALIAS)},
            },
        )
        self._api = AgentAPI(transport, self.daemon.host, timeout=30)

    def call(self, method: str, **arguments: Any) -> Any:
        return getattr(self._api, method)(CONTEXT, **arguments)

    def redefine(self, claim: dict[str, Any], document: str) -> str:
        """The domain as the claim says it, in the place of the one that was."""
        before = self.directory / "before.xml"
        before.write_text(document)
        asked = ("claim", "domain", claim["uuid"], str(before))
        printed = run("--config-file", str(self.daemon.config_file), *asked)
        assert printed.code == 0, printed.err
        self.undefine(claim["owner_id"])
        with edit(self.file) as world:
            world.add_domain(printed.out)
        return printed.out

    def undefine(self, uuid: str) -> None:
        if uuid in self.file.read_text():
            with edit(self.file) as world:
                world.remove_domain(uuid)

    def audit(self) -> None:
        """Everything agrees."""
        summary = self.call("update_available_resource")
        assert (summary["orphans"], summary["drifts"], summary["suspects"]) == (0, 0, 0), summary

    def free(self) -> int:
        """How many GPUs there are to be had, by the agent's record of its node."""
        return sum(pool["count"] for pool in self.call("get_node")["node"]["pci_device_pools"])

    def close(self) -> None:
        self.daemon.close()


@pytest.fixture
def host(tmp_path: Path, transport: oslo_messaging.RPCTransport) -> Iterator[Host]:
    made = Host(tmp_path / "only", transport)
    made.daemon.start().wait_ready()
    yield made
    made.close()


def flavor(gpus: int) -> dict[str, Any]:
    specs = {"pci_passthrough:alias": f"{NAME}:{gpus}"}
    return {"vcpus": 2, "memory_mb": 1024, "name": f"gpu-{gpus}", "extra_specs": specs}


def given(document: str) -> list[str]:
    """Addresses of the domain's host devices."""
    sources = etree.fromstring(document).iterfind("devices/hostdev/source/address")
    fields = ("domain", "bus", "slot", "function")
    texts = ([str(each.get(name)).removeprefix("0x") for name in fields] for each in sources)
    return ["{}:{}:{}.{}".format(*text) for text in texts]


def addresses(claim: dict[str, Any]) -> list[str]:
    return [device["address"] for device in claim["pci"]]


def started(host: Host) -> tuple[dict[str, Any], dict[str, Any], str]:
    """A guest with one GPU that runs: the instance, its claim, its domain's document."""
    instance = {"uuid": uid(), "flavor": flavor(1), "vm_state": "active"}
    claim = host.call("instance_claim", instance=instance)
    assert addresses(claim) == [GPU_0]
    host.call("activate_claim", claim_uuid=claim["uuid"])
    document = host.redefine(claim, domain_xml(instance["uuid"], vcpus=1, memory_mb=1024))
    assert given(document) == [GPU_0]
    host.audit()
    return instance, claim, document


def test_resize_to_two_gpus_on_a_host_with_two(host: Host):
    instance, claim, document = started(host)
    owner = instance["uuid"]

    def resize() -> dict[str, Any]:
        made = host.call("resize_claim", instance=instance, flavor=flavor(2))
        assert (made["state"], addresses(made)) == ("incoming", [GPU_0, GPU_1])
        assert made["pci_replaced"][NAME] == {"before": [GPU_0], "after": [GPU_0, GPU_1]}
        return made

    def move(made: dict[str, Any]) -> dict[str, Any]:
        step = {
            "instance_uuid": owner,
            "migration": {"uuid": made["migration_uuid"], "migration_type": "resize"},
        }
        assert host.call("start_move_out", **step)["state"] == "outgoing"
        assert given(host.redefine(made, document)) == [GPU_0, GPU_1]
        assert host.call("finish_move", **step)["state"] == "active"
        host.audit()
        assert host.free() == 0
        return step

    reverted = move(resize())
    host.call("drop_move_claim_at_dest", **reverted)
    assert host.call("finish_revert", **reverted)["state"] == "active"
    assert given(host.redefine(claim, document)) == [GPU_0]
    host.audit()
    assert host.free() == 1

    made = resize()
    confirmed = move(made)
    host.daemon.kill()
    host.daemon.start().wait_ready()
    host.call("drop_move_claim_at_source", **confirmed)
    (left,) = host.call("get_claims_for_instance", instance_uuid=owner)["claims"]
    assert (left["uuid"], addresses(left)) == (made["uuid"], [GPU_0, GPU_1])
    host.audit()
    with pytest.raises(ComputeResourcesUnavailable):
        host.call("instance_claim", instance={"uuid": uid(), "flavor": flavor(1)})

    host.undefine(owner)
    host.call("update_usage", instance={"uuid": owner, "vm_state": "deleted"})
    assert host.free() == 2
