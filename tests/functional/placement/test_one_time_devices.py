"""Devices for one use, whose allocations the agent writes: a real Placement and a daemon."""

import json

from rtagent.virt.simulate import Machine, simulate
from tests.functional.placement.conftest import PATIENCE
from tests.functional.placement.test_allocations import CONTEXT, Cloud
from tests.servers.daemon import wait_until
from tests.support.hosts import uid

GPU = {"vendor_id": "10de", "product_id": "13f1"}
GPU_CLASS = "CUSTOM_PCI_10DE_13F1"


def instance():
    extra_specs = {"pci_passthrough:alias": "gpu:1"}
    flavor = {"vcpus": 1, "memory_mb": 8, "root_gb": 0, "extra_specs": extra_specs}
    return {"uuid": uid(), "project_id": "p1", "user_id": "u1", "flavor": flavor}


def test_a_device_is_reserved_once_its_allocation_is_written(node, rabbitmq_server, tmp_path):
    cloud = Cloud(node, tmp_path / "agent", rabbitmq_server.transport_url)
    simulate(tmp_path / "agent" / "host.xml", Machine(hostname=node.name, gpus=1))
    specs = {
        "device_spec": json.dumps({**GPU, "one_time_use": "yes"}),
        "alias": json.dumps({**GPU, "name": "gpu"}),
        "report_in_placement": True,
    }
    cloud.daemon.configure({"pci": specs})
    placement = node.server.client()

    def child() -> str:
        tree = placement.get(f"/resource_providers?in_tree={node.uuid}").json()
        found = [each["uuid"] for each in tree["resource_providers"] if each["uuid"] != node.uuid]
        return f"/resource_providers/{found[0]}" if found else ""

    def reserved() -> int | None:
        found = placement.get(f"{child()}/inventories").json()["inventories"] if child() else {}
        return found[GPU_CLASS]["reserved"] if found else None

    def allocated() -> dict[str, int]:
        found = placement.get(f"{child()}/allocations").json()["allocations"]
        return {uuid: each["resources"][GPU_CLASS] for uuid, each in found.items()}

    try:
        cloud.start()
        wait_until(lambda: reserved() == 0, PATIENCE)

        claim = cloud.api.instance_claim(CONTEXT, instance())
        wait_until(lambda: (allocated(), reserved()) == ({claim["owner_id"]: 1}, 1), PATIENCE)

        cloud.release(claim)
        wait_until(lambda: (allocated(), reserved()) == ({}, 1), PATIENCE)
        wait_until(lambda: not cloud.rows(), PATIENCE)
    finally:
        cloud.close()
