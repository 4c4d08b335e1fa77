"""A host that nova-compute has published, the agent that takes it over, and failing requests."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rtagent.lifecycle.attach import quarantine_used_before
from rtagent.model.device import Device
from rtagent.model.node_state import NodeState
from rtagent.model.policy import PciPolicy
from rtagent.placement.adoption import Adoption, AdoptionFile
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.provider import Ownership
from rtagent.placement.takeover import Takeover
from rtagent.telemetry.telemetry import Telemetry
from tests.functional.placement.conftest import MirroredNode, NodeRecords
from tests.servers.placement import Request
from tests.support.device_states import audited, device_host, seen
from tests.support.hosts import NOON, ManualClock, call
from tests.support.pci_hosts import record

#: Seconds after which every pause of a mirror is over.
LATER = 1000.0

Resources = Mapping[str, int]


class NovaCompute:
    """Writes to Placement what Nova's documentation says that nova-compute writes.

    - The root has the compute node's uuid and name, VCPU, MEMORY_MB and DISK_GB.
    - Up to Stein it also has VGPU; since then each GPU has a child, named after libvirt's device.
    - With ``[pci] report_in_placement`` each PCI device, or physical function, has a child, named
      after its address.
    """

    def __init__(self, node: MirroredNode) -> None:
        self.node = node

    def root(self, traits: tuple[str, ...] = (), **more: int) -> str:
        """Create the root with these further inventories."""
        quantities = {"VCPU": 64, "MEMORY_MB": 65536, "DISK_GB": 1000, **more}
        self._create(self.node.uuid, self.node.name, None)
        return self._fill(self.node.uuid, quantities, ("COMPUTE_NODE", "OWNER_NOVA", *traits))

    def child(self, suffix: str, quantities: Resources, traits: tuple[str, ...] = ()) -> str:
        """Create a child with a random uuid, and return that."""
        body = {"name": f"{self.node.name}_{suffix}", "parent_provider_uuid": self.node.uuid}
        uuid = str(self.node.admin.post("/resource_providers", json=body).json()["uuid"])
        return self._fill(uuid, quantities, ("OWNER_NOVA", *traits))

    def reserve(self, uuid: str, quantities: Resources) -> None:
        """Reserve all of a child, as that of a device for one use from its use on."""
        self._fill(uuid, quantities, ("OWNER_NOVA",), reserved=True)

    def sharing(self, name: str, **quantities: int) -> str:
        """Create a provider that shares these inventories, as an administrator does."""
        uuid = str(self.node.admin.post("/resource_providers", json={"name": name}).json()["uuid"])
        return self._fill(uuid, quantities, ("MISC_SHARES_VIA_AGGREGATE",))

    def aggregate(self, uuid: str, *aggregates: str) -> None:
        """Set the aggregates of a provider."""
        path = f"/resource_providers/{uuid}/aggregates"
        generation = self.node.admin.get(path).json()["resource_provider_generation"]
        body = {"aggregates": aggregates, "resource_provider_generation": generation}
        assert self.node.admin.put(path, json=body).status_code == 200

    def allocate(self, consumer: str, **parts: Resources) -> None:
        """Allocate for an instance. :param parts: by provider; "root" is the root."""
        self.put(consumer, {self.node.uuid if p == "root" else p: r for p, r in parts.items()})

    def put(self, consumer: str, parts: Mapping[str, Resources], generation: Any = None) -> None:
        answer = self.node.server.allocate(consumer, parts, consumer_generation=generation)
        assert answer == 204

    def _create(self, uuid: str, name: str, parent: str | None) -> None:
        body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
        assert self.node.admin.post("/resource_providers", json=body).status_code == 200

    def _fill(
        self, uuid: str, quantities: Resources, traits: tuple[str, ...], reserved: bool = False
    ) -> str:
        admin = self.node.admin
        for name in quantities:
            if name.startswith("CUSTOM_"):
                admin.put(f"/resource_classes/{name}")
        for name in traits:
            if name.startswith("CUSTOM_"):
                admin.put(f"/traits/{name}")
        path = f"/resource_providers/{uuid}"
        generation = admin.get(path).json()["generation"]
        inventories = {
            name: {"total": total, "max_unit": total, "reserved": total * reserved}
            for name, total in quantities.items()
        }
        for part, content in (("traits", list(traits)), ("inventories", inventories)):
            body = {"resource_provider_generation": generation, part: content}
            answer = admin.put(f"{path}/{part}", json=body)
            assert answer.status_code == 200, answer.text
            generation = answer.json()["resource_provider_generation"]
        return uuid


class Agent(NodeRecords):
    """The part of an agent that publishes, in the test's thread. `start` is a new process."""

    def __init__(self, node: MirroredNode) -> None:
        self.node, self.clock = node, ManualClock()
        self.telemetry = Telemetry(self.clock)

    def host(self, *devices: Device, pci: PciPolicy) -> None:
        """Audit a host with these devices."""
        state = device_host(record(devices), pci=pci)
        state = replace(state, node=self.node.state.node)
        self.state = audited(state, seen(state, devices=devices))

    @property
    def state(self) -> NodeState:
        return self.node.state

    @state.setter
    def state(self, state: NodeState) -> None:
        self.node.state = state

    def start(self) -> None:
        """Start a new process, and let its first round run."""
        api, file = self.node.client(), AdoptionFile(self.node.state_path)
        self.put_in_force(file.read(self.node.uuid))
        ownership = Ownership(self.node.state_path)
        takeover = Takeover(
            *(api, ownership, file, lambda: self.state, self.node.wanted, self.put_in_force),
            self.quarantine,
        )
        self.mirror = PlacementMirror(
            api,
            self.node.wanted,
            ownership,
            self.clock,
            self.telemetry,
            prepare=takeover.prepare,
            refresh=lambda: self.node.refresh,
        )
        self.mirror.forget()
        self.turn()

    def turn(self) -> None:
        """Run a round in the test's thread."""
        self.mirror.wake()
        self.clock.seconds += LATER
        assert self.mirror.turn()

    def put_in_force(self, adoption: Adoption) -> None:
        state = self.state
        policy = adoption.applied_to(state.policy)
        self.state = replace(state, policy=policy, revision=state.revision + 1)

    def quarantine(self, addresses: Sequence[str]) -> None:
        used = quarantine_used_before(self.state, call(), NOON, addresses)
        self.state = self.state.fold(used.change)

    def requests(self) -> list[Request]:
        """Return the requests of a round."""
        return self.node.requests_of(self.turn)

    @property
    def health(self) -> tuple[str, str]:
        """The status, and what is wrong."""
        (check,) = (each for each in self.telemetry.checks() if each.part == "placement")
        return check.status.value, check.output
