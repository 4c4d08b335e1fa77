"""A host whose node is published to a real Placement, and that schedules by Placement's answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from keystoneauth1 import adapter, session, token_endpoint
from msgspec.structs import replace

from rtagent.model.consumers import Consumer, consumers_of
from rtagent.model.device import MdevType
from rtagent.model.flavor import Flavor
from rtagent.model.instance import Instance, PciRequest
from rtagent.model.pci_policy import EnabledMdevType, PciPolicy
from rtagent.model.policy import Policy
from rtagent.model.request import Allocation, BuildRequest
from rtagent.pci.specs import parse_specs
from rtagent.placement import tree
from rtagent.placement.client import HttpPlacement
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.ownership import MemoryOwnership
from tests.servers import Placement
from tests.support.agents import Agent
from tests.support.hosts import host, uid
from tests.support.pci_hosts import ALIASES, GPU_0, GPU_1, GPU_IDS, VF_IDS, gpu, nic

#: A GPU with mediated devices, and their type.
SHARED_GPUS = ("0000:48:00.0", "0000:c8:00.0")
MDEV = EnabledMdevType(type="nvidia-222", addresses=None, resource_class="VGPU", max_instances=None)
SPECS = {
    "gpus": json.dumps(GPU_IDS),
    "functions": json.dumps(VF_IDS),
}
#: The resource class of each alias.
CLASSES = {"gpu": "CUSTOM_PCI_10DE_13F1", "vf": "CUSTOM_PCI_8086_154C"}
DEVICES = {
    each.address: each
    for each in (
        gpu(GPU_0, 0, iommu_group=1),
        gpu(GPU_1, 1, iommu_group=2),
        gpu("0000:89:00.0", 1, iommu_group=2),
        *nic("0000:20:00.0", 3, 0),
        *(
            replace(
                gpu(address, 0),
                product_id="1eb8",
                mdev_types=(MdevType(id=MDEV.type, device_api="vfio-pci", available_instances=2),),
            )
            for address in SHARED_GPUS
        ),
    )
}
#: Each host takes the place of the one before, so that the same steps give the same uuids.
_NUMBER = 10_000_000


def policy(specs: Iterable[str] = SPECS, **more: Any) -> Policy:
    pci = PciPolicy(
        specs=parse_specs([SPECS[name] for name in sorted(specs)]),
        aliases=ALIASES,
        mdev_types=(MDEV,),
        report_in_placement=True,
    )
    return host(pci=pci, cpu_allocation_ratio=2, **more).policy


class PublishedHost(Agent):
    """An agent, its mirror, and the allocations of its guests.

    :ivar server: Placement. :ivar written: the uuids of all consumers that were ever written.
    """

    def __init__(self, server: Placement) -> None:
        self.server, self.written = server, set[str]()
        self.api = server.client("1.38")
        self._ownership = MemoryOwnership()
        super().__init__(number=_NUMBER, policy=policy())
        self._remove_predecessor()
        self.world.plug(*DEVICES.values())
        self.settle()

    def start(self, *arguments: Any, **options: Any) -> None:
        super().start(*arguments, **options)
        keystone = session.Session(auth=token_endpoint.Token(self.server.url, self.server.token))
        client = HttpPlacement(adapter.Adapter(keystone, service_type="placement"))
        self.mirror = PlacementMirror(
            client,
            lambda: tree.build(self.state, disabled=False, hypervisor_up=True),
            self._ownership,
            self.clock,
        )

    def settle(self) -> None:
        """Audit, publish, and write the allocations of all guests, as the conductor does."""
        self.audit()
        for _ in range(4):
            self.mirror.wake()
            self.clock.advance(100)
            assert self.mirror.turn()
            if self._write_allocations() and self.mirror.error is None:
                break
        else:
            raise AssertionError(f"Placement lacks allocations; mirror: {self.mirror.error}")
        self.mirror.wake()
        self.clock.advance(100)
        self.mirror.turn()
        assert self.mirror.error is None

    def _remove_predecessor(self) -> None:
        path = "/resource_providers"
        tree = self.api.get(path, params={"in_tree": self.node.uuid}).json()["resource_providers"]
        for each in sorted(tree, key=lambda each: each["parent_provider_uuid"] is None):
            found = self.api.get(f"{path}/{each['uuid']}/allocations").json()["allocations"]
            for consumer in found:
                assert self.api.delete(f"/allocations/{consumer}").status_code == 204
            assert self.api.delete(f"{path}/{each['uuid']}").status_code == 204

    # -- scheduling -------------------------------------------------------------------------------

    def candidates(self, request: BuildRequest) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the allocations and the mappings of each candidate on this host."""
        answer = self.server.client("1.39").get(
            "/allocation_candidates", params=self._query(request)
        )
        assert answer.status_code == 200, answer.text
        found = answer.json()["allocation_requests"]
        return sorted(((each["allocations"], each["mappings"]) for each in found), key=str)

    def _query(self, request: BuildRequest) -> dict[str, str]:
        flavor, root = request.instance.flavor, self.node.uuid
        amounts = {
            "VCPU": flavor.vcpus,
            "MEMORY_MB": flavor.memory_mb,
            "DISK_GB": flavor.root_gb,
            "VGPU": int(flavor.extra_specs.get("resources:VGPU", "0")),
        }
        query = {
            "resources": ",".join(f"{name}:{number}" for name, number in amounts.items() if number),
            "in_tree": root,
            "group_policy": "none",
        }
        for each in request.instance.pci_requests:
            for number in range(each.count):
                group = f"_{each.request_id}-{number}"
                query[f"resources{group}"] = f"{CLASSES[str(each.alias_name)]}:1"
                query[f"in_tree{group}"] = root
        return query

    # -- allocations ------------------------------------------------------------------------------

    def _write_allocations(self) -> bool:
        """Whether Placement accepted all of them."""
        wanted: dict[str, Consumer] = {}
        for owner in {claim.owner_id for claim in self.state.claims.values()}:
            wanted |= consumers_of(self.state, owner)
        self.written |= wanted.keys()
        accepted = [self._write(uuid, wanted.get(uuid)) for uuid in sorted(self.written)]
        return all(accepted)

    def _write(self, uuid: str, consumer: Consumer | None) -> bool:
        found = self.api.get(f"/allocations/{uuid}").json()
        parts = dict(consumer.parts) if consumer else {}
        current = {each: part["resources"] for each, part in found["allocations"].items()}
        if current == parts:
            return True
        body = {
            "allocations": {each: {"resources": part} for each, part in parts.items()},
            "consumer_generation": found.get("consumer_generation"),
            "consumer_type": consumer.consumer_type if consumer else "INSTANCE",
            "project_id": "p",
            "user_id": "u",
        }
        return self.api.put(f"/allocations/{uuid}", json=body).status_code == 204


def requested(
    vcpus: int = 1,
    memory_mb: int = 1024,
    root_gb: int = 1,
    *,
    vgpus: int = 0,
    devices: Mapping[str, int] = {},
    owner: str | None = None,
) -> BuildRequest:
    """Return a request for amounts, virtual GPUs and devices by alias."""
    specs = {"resources:VGPU": str(vgpus)} if vgpus else {}
    if devices:
        specs["pci_passthrough:alias"] = ",".join(f"{a}:{n}" for a, n in devices.items())
    return BuildRequest(
        instance=Instance(
            uuid=owner or uid(),
            flavor=Flavor(vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb, extra_specs=specs),
            pci_requests=tuple(
                PciRequest(request_id=f"req{number}", alias_name=alias, count=count)
                for number, (alias, count) in enumerate(devices.items())
            ),
        )
    )


def scheduled(
    request: BuildRequest, allocations: Mapping[str, Any], mappings: Mapping[str, Any]
) -> BuildRequest:
    """Return the request with the allocations of a candidate."""
    found = {uuid: Allocation(resources=part["resources"]) for uuid, part in allocations.items()}
    # A group's name in a query begins with an underscore; the unnumbered group is not a device's.
    groups = {name.removeprefix("_"): tuple(uuids) for name, uuids in mappings.items() if name}
    return replace(request, allocations=found, provider_mapping=groups)
