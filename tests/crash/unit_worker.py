"""Worker process that assigns host CPUs and devices to guests and releases them until it is killed.

Everything but the hypervisor is real. It reports each call before making it, and after the answer
what its callers know then.
"""

import json
import random
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any
from uuid import UUID

from rtagent.audit import Auditor
from rtagent.claims import activate_claim, instance_claim, release_claim
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.embedded import SystemClock
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.lifecycle.attach import (
    allocate_pci_devices,
    claim_pci_devices,
    end_pci_claims,
    quarantine,
)
from rtagent.model.change import Call
from rtagent.model.claim import ATTACH, BUILDING, Claim, Unit
from rtagent.model.domain_usage import Occupancy
from rtagent.model.node_state import NodeState
from rtagent.model.policy import PciPolicy, Policy
from rtagent.model.request import AttachRequest, Instance, PciRequest
from rtagent.pci.specs import parse_specs
from rtagent.testing.failpoints import Failpoint, FailpointStore
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.tracker import ResourceTracker
from tests.support.hosts import PINNED, PINNING, TOPOLOGY, request
from tests.support.pci_hosts import ALIASES, GPU_0, GPU_1, GPU_IDS, PF_0, PF_IDS, VF_IDS, gpu, nic
from tests.support.trackers import enroll

HARDWARE = {d.address: d for d in (gpu(GPU_0), gpu(GPU_1), *nic(PF_0, 3))}
ONCE = frozenset({GPU_0, GPU_1})
SPECS = parse_specs([json.dumps(o) for o in ({**GPU_IDS, "one_time_use": True}, PF_IDS, VF_IDS)])
POLICY = Policy(numa=PINNING, pci=PciPolicy(specs=SPECS, aliases=ALIASES))
REQUESTED = ("gpu:1", "gpu:2", "vf:1", "vf:2", "pf:1", "gpu:1,vf:1")
#: Causes of the commits during which the process is killed.
CAUSES = ("instance_claim", "claim", "allocate", "free", "activate", "release", "clear", "audit")

#: A claim as its callers know it: owner, kind, state, units.
KnownClaim = tuple[str, str, str, tuple[Unit, ...]]


class DeviceWorker:
    """:param report: called with each report, a tuple."""

    def __init__(self, url: str, failpoint: str, seed: int, report: Callable[[Any], None]) -> None:
        self._rng, self._report = random.Random(seed), report
        engine = open_engine(url, 15)
        point = Failpoint.parse(failpoint)
        store = FailpointStore(SqlStore(engine, point.passed), point)
        clock = SystemClock()
        self._tracker = ResourceTracker(store, clock, enroll(store, POLICY))
        self._hypervisor = FakeHypervisor(TOPOLOGY)
        self._hypervisor.plug(*HARDWARE.values())
        self._auditor = Auditor(self._tracker, self._hypervisor, clock)
        self._do("audit", "", lambda: self._auditor.run("start"))

    def step(self) -> None:
        getattr(self, "_" + self._rng.choice(CAUSES))()

    # -- calls ------------------------------------------------------------------------------------

    def _instance_claim(self) -> None:
        extra_specs = {"pci_passthrough:alias": self._rng.choice(REQUESTED)}
        if self._rng.random() < 0.7:
            extra_specs |= PINNED
        asked = request(1, 64, owner=self._uuid(), extra_specs=extra_specs)
        call = self._call("instance_claim")
        self._do(
            call.method,
            call.operation_id,
            lambda: self._tracker.create(instance_claim, call, asked),
        )

    def _claim(self) -> None:
        if main := self._some(lambda claim: claim.kind != ATTACH):
            alias = self._rng.choice(["gpu", "vf"])
            asked = AttachRequest(
                instance=Instance(uuid=main.owner_id, flavor=main.flavor),
                pci_requests=(PciRequest(count=1, alias_name=alias),),
            )
            call = self._call("claim")
            self._do(
                "claim",
                call.operation_id,
                lambda: self._tracker.create(claim_pci_devices, call, asked),
            )

    def _allocate(self) -> None:
        if claim := self._some(lambda claim: claim.kind == ATTACH):
            call = self._call("allocate")
            self._do(
                "allocate",
                claim.uuid,
                lambda: self._tracker.change(
                    allocate_pci_devices, call, claim.owner_id, claim.uuid
                ),
            )

    def _free(self) -> None:
        if claim := self._some(lambda claim: claim.kind == ATTACH):
            call, verb = self._call("free"), "unclaim" if claim.state == BUILDING else "free"
            self._do(
                "free",
                claim.uuid,
                lambda: self._tracker.execute(
                    end_pci_claims, call, claim.owner_id, claim.uuid, verb
                ),
            )

    def _activate(self) -> None:
        if claim := self._some(lambda claim: claim.kind != ATTACH):
            call = self._call("activate")
            self._do(
                "activate",
                claim.uuid,
                lambda: self._tracker.change(activate_claim, call, claim.uuid),
            )

    def _release(self) -> None:
        if claim := self._some(lambda claim: True):
            call = self._call("release")
            self._do(
                "release",
                claim.uuid,
                lambda: self._tracker.execute(release_claim, call, claim.uuid),
            )

    def _clear(self) -> None:
        back = [a for a, each in self._state.devices.items() if each.quarantine is not None]
        if back:
            address, call = self._rng.choice(sorted(back)), self._call("clear")
            self._do(
                "clear", address, lambda: self._tracker.execute(quarantine, call, address, None)
            )

    def _audit(self) -> None:
        """Audit after a device was plugged or unplugged and a domain without a claim started."""
        address = self._rng.choice(sorted(HARDWARE))
        if self._rng.random() < 0.3 and address in self._hypervisor.devices:
            self._hypervisor.unplug(address)
        else:
            self._hypervisor.plug(HARDWARE[address])
        self._hypervisor.domains.clear()
        self._hypervisor.start_domain(
            self._uuid(), 1, 64, occupancy=Occupancy(devices=frozenset({address}))
        )
        self._do("audit", "", lambda: self._auditor.run("test"))

    # -- their parts ------------------------------------------------------------------------------

    @property
    def _state(self) -> NodeState:
        return self._tracker.snapshot()

    def _do(self, cause: str, name: str, make: Callable[[], Any]) -> None:
        self._report(("requested", cause, name))
        try:
            make()
        except ComputeResourcesUnavailable:
            self._report(("refused", cause, name))
        else:
            self._report(("done", cause, name, known_claims(self._state), len(self._state.devices)))

    def _some(self, kind: Callable[[Claim], bool]) -> Claim | None:
        found = sorted((c for c in self._state.claims.values() if kind(c)), key=lambda c: c.uuid)
        return self._rng.choice(found) if found else None

    def _uuid(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))

    def _call(self, method: str, operation_id: str = "") -> Call:
        return Call(method=method, operation_id=operation_id or self._uuid(), digest="d")


def known_claims(state: NodeState) -> Mapping[str, KnownClaim]:
    """Return the claims by uuid, as their callers know them."""
    return {
        uuid: (c.owner_id, c.kind, c.state, tuple(sorted(c.units)))
        for uuid, c in state.claims.items()
    }


def run_worker(pipe: Connection, url: str, failpoint: str, seed: int) -> None:
    """Run the process."""
    worker = DeviceWorker(url, failpoint, seed, pipe.send)
    for _ in range(2000):
        worker.step()
