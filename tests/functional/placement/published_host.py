"""A host whose node is published to a real Placement, and that schedules by Placement's answers."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import os_resource_classes as orc
from keystoneauth1 import token_endpoint
from msgspec.structs import replace

from rtagent.model.device import MdevType
from rtagent.model.policy import (
    AdditionalInventory,
    EnabledMdevType,
    ManageAllocations,
    PciPolicy,
    PlacementPolicy,
    Policy,
)
from rtagent.model.request import Allocation, BuildRequest, Flavor, Instance, PciRequest
from rtagent.pci.specs import parse_aliases, parse_specs
from rtagent.placement import tree
from rtagent.placement.allocation_outbox import AllocationOutbox
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.provider import Ownership
from tests.functional.placement.conftest import connect
from tests.servers import Placement
from tests.support.agents import Agent
from tests.support.allocating_agents import (
    consumer_content,
    outbox_source,
    resources_of,
    wanted_allocations,
)
from tests.support.audited_nodes import MeddlingPlacement
from tests.support.hosts import host, uid
from tests.support.pci_hosts import ALIASES as DEVICE_ALIASES
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS, VF_IDS, gpu, nic
from tests.support.provider_files import additional

#: A GPU with mediated devices, and their type.
SHARED_GPUS = ("0000:48:00.0", "0000:c8:00.0")
MDEV = EnabledMdevType(type="nvidia-222", addresses=None, resource_class="VGPU", max_instances=None)
#: Devices that one guest can use, until the operator clears them.
ONE_TIME_IDS = {"vendor_id": "10de", "product_id": "1db4"}
ONE_TIME = ("0000:31:00.0", "0000:b1:00.0")
SPECS = {
    "gpus": json.dumps(GPU_IDS),
    "functions": json.dumps(VF_IDS),
    "one-time": json.dumps({**ONE_TIME_IDS, "one_time_use": "yes"}),
}
ALIASES = {**DEVICE_ALIASES, **parse_aliases([json.dumps({"name": "once", **ONE_TIME_IDS})])}
#: The resource class of each alias.
CLASSES = {
    "gpu": "CUSTOM_PCI_10DE_13F1",
    "vf": "CUSTOM_PCI_8086_154C",
    "once": "CUSTOM_PCI_10DE_1DB4",
}
#: What a provider file offers.
LICENCE = "CUSTOM_LICENCE"
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
        *(replace(gpu(address, 0), **ONE_TIME_IDS) for address in ONE_TIME),
    )
}
#: A provider of another service, on which the guests have allocations, too.
FOREIGN = uid(10_999_999)
#: Each host takes the place of the one before, so that the same steps give the same uuids.
_NUMBER = 10_000_000


def policy(
    specs: Iterable[str] = SPECS,
    licences: int = 0,
    manage: ManageAllocations = ManageAllocations.NO,
    **more: Any,
) -> Policy:
    """:param licences: how many a provider file offers; 0: there is no file."""
    pci = PciPolicy(
        specs=parse_specs([SPECS[name] for name in sorted(specs)]),
        aliases=ALIASES,
        mdev_types=(MDEV,),
        report_in_placement=True,
    )
    placement = PlacementPolicy(
        manage_allocations=manage, additional=(offered(LICENCE, licences),) if licences else ()
    )
    return host(pci=pci, placement=placement, cpu_allocation_ratio=2, **more).policy


def offered(resource_class: str, total: int) -> AdditionalInventory:
    """Return what a provider file adds to the root provider."""
    return additional(resource_class, total, reserved=1, max_unit=3)


class PublishedHost(Agent):
    """An agent, its mirror, and the allocations of its guests.

    :ivar server: Placement. :ivar client: of the test.
    :ivar meddler: the client of mirror and outbox, between whose requests something may happen.
    :ivar written: the uuids of consumers that may have allocations.
    :ivar foreign: what the guests have on the provider of the other service.
    """

    def __init__(self, server: Placement, manage: ManageAllocations) -> None:
        self.server, self.manage = server, manage
        self.written, self.foreign = set[str](), dict[str, int]()
        self.api = server.client("1.38")
        self._ownership = Ownership()
        self.client = connect(token_endpoint.Token(server.url, server.token))
        self.meddler: Any = MeddlingPlacement(self.client)
        super().__init__(number=_NUMBER, policy=policy(manage=manage))
        server.remove_tree(self.node.uuid)  # of the predecessor
        self._create_foreign_provider()
        self.client.ensure_classes([LICENCE, *CLASSES.values()])  # they can be asked for
        self.world.plug(*DEVICES.values())
        assert self.settle()

    def start(self, *arguments: Any, **options: Any) -> None:
        super().start(*arguments, **options)
        self.mirror = PlacementMirror(
            self.meddler,
            lambda: tree.build(self.state, disabled=False, hypervisor_up=True),
            self._ownership,
            self.clock,
        )
        source = outbox_source(self.tracker, owns=self._ownership.knows)
        self.outbox = AllocationOutbox(self.meddler, source, self.clock)
        self.tracker.listen(self.mirror.listener)
        self.tracker.listen(self.outbox.listener)
        self.mirror.wake()

    def settle(self) -> bool:
        """Audit, publish, and write the allocations of all guests.

        :returns: whether Placement can have them: not if a foreign domain uses what they have.
        """
        self.audit()
        failed = False
        for _ in range(12):
            self.clock.advance(100 if failed else 1)
            written = self._write_allocations()
            turned = self.mirror.turn()
            failed = not written or self.mirror.error is not None
            if not turned and not failed:
                return True
        errors = f"{self.mirror.error}; {self.outbox.error}; {self.outbox.unwritten()}"
        assert self.mirror.error is None and self._is_overfull(), f"not converged: {errors}"
        return False

    # -- other clients ----------------------------------------------------------------------------

    def _create_foreign_provider(self) -> None:
        self.server.remove_tree(FOREIGN)
        body = {"uuid": FOREIGN, "name": "other-service"}
        assert self.api.post("/resource_providers", json=body).status_code == 200
        self.client.put_inventories(FOREIGN, 0, {"FPGA": {"total": 10_000, "max_unit": 10_000}})

    def change_traits(self) -> None:
        """Add a trait to the root provider, or remove it, so that its generation is another."""
        path = f"/resource_providers/{self.node.uuid}/traits"
        found = self.api.get(path).json()
        body = {**found, "traits": sorted({*found["traits"]} ^ {"CUSTOM_RACK_7"})}
        assert self.api.put("/traits/CUSTOM_RACK_7").ok
        assert self.api.put(path, json=body).status_code == 200

    def allocate_elsewhere(self, consumer: str) -> None:
        """Allocate more for a consumer from the provider of the other service."""
        found = self.api.get(f"/allocations/{consumer}").json()
        wanted = self.foreign.get(consumer, 0) + 1
        body = consumer_content({**resources_of(found), FOREIGN: {"FPGA": wanted}}, found)
        if self._put(consumer, body):
            self.foreign[consumer] = wanted

    def remove_allocation(self, consumer: str) -> None:
        """Remove all allocations of a consumer, and have the agent compare them."""
        assert self.api.delete(f"/allocations/{consumer}").status_code in (204, 404)
        self.foreign.pop(consumer, None)
        self.outbox.recheck()

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
        quantities = {
            "VCPU": flavor.vcpus,
            "MEMORY_MB": flavor.memory_mb,
            "DISK_GB": flavor.root_gb,
            "VGPU": int(flavor.extra_specs.get("resources:VGPU", "0")),
            LICENCE: int(flavor.extra_specs.get(f"resources:{LICENCE}", "0")),
        }
        query = {
            "resources": ",".join(
                f"{name}:{number}" for name, number in quantities.items() if number
            ),
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

    @property
    def wanted(self) -> dict[str, dict[str, dict[str, int]]]:
        """What each consumer should have on this node's providers."""
        return wanted_allocations(self.state)

    def allocations_in(self, root: str) -> dict[str, dict[str, dict[str, int]]]:
        """What each consumer has on the providers of a tree, in Placement."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for provider in self.client.tree(root):
            uuid = provider["uuid"]
            for consumer, part in self.client.allocations(uuid)["allocations"].items():
                found.setdefault(consumer, {})[uuid] = part["resources"]
        return found

    def check_allocations(self) -> None:
        """Check that Placement has what the claims have, and what other services have set."""
        assert self.allocations_in(self.node.uuid) == self.wanted
        elsewhere = self.allocations_in(FOREIGN)
        foreign = {consumer: part[FOREIGN]["FPGA"] for consumer, part in elsewhere.items()}
        assert foreign == self.foreign

    def _write_allocations(self) -> bool:
        """Whether Placement accepted all of them."""
        if self.manage != ManageAllocations.NO:
            self.outbox.turn()
            return not self.state.outbox and self.outbox.error is None
        wanted = self.wanted
        self.written |= wanted.keys()
        accepted = {uuid: self._write(uuid, wanted.get(uuid, {})) for uuid in sorted(self.written)}
        self.written -= {uuid for uuid, ok in accepted.items() if ok and uuid not in wanted}
        return all(accepted.values())

    def _write(self, uuid: str, parts: Mapping[str, Mapping[str, int]]) -> bool:
        found = self.api.get(f"/allocations/{uuid}").json()
        current = resources_of(found)
        whole = {**parts, **{each: part for each, part in current.items() if each == FOREIGN}}
        if current == whole:
            return True
        owned = any(claim.owner_id == uuid for claim in self.state.claims.values())
        kind = "INSTANCE" if owned or FOREIGN in whole else "MIGRATION"
        return self._put(uuid, {**consumer_content(whole, found), "consumer_type": kind})

    def _put(self, uuid: str, body: Mapping[str, Any]) -> bool:
        return self.api.put(f"/allocations/{uuid}", json=body).status_code == 204

    def _is_overfull(self) -> bool:
        """Whether Placement refuses to write again what a consumer has already."""
        shared = {orc.VCPU, orc.MEMORY_MB, orc.DISK_GB}
        used, capacity = dict[str, int](), dict[str, float]()
        for provider in self.client.tree(self.node.uuid):
            path = f"/resource_providers/{provider['uuid']}/usages"
            found = self.api.get(path).json()["usages"]
            for name, record in self.client.inventories(provider["uuid"])["inventories"].items():
                if name in shared:
                    free = (record["total"] - record["reserved"]) * record["allocation_ratio"]
                    key = f"{name} {provider['uuid']}"
                    used[key], capacity[key] = found[name], free
        return any(used[key] > capacity[key] for key in used)


def requested(
    vcpus: int = 1,
    memory_mb: int = 1024,
    root_gb: int = 1,
    *,
    vgpus: int = 0,
    licences: int = 0,
    devices: Mapping[str, int] = {},
    owner: str | None = None,
) -> BuildRequest:
    """Return a request for quantities, virtual GPUs, licences and devices by alias."""
    specs = {"resources:VGPU": str(vgpus)} if vgpus else {}
    if licences:
        specs[f"resources:{LICENCE}"] = str(licences)
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
