"""Placement offers this host exactly when the agent grants the claim, after any life of the node.

After each step the node is published and the allocations of all its guests are written. Then each
of Placement's allocation candidates for a request is granted with the allocations of that
candidate, and there is a candidate whenever the agent would grant the request. The requests have
plain amounts, virtual GPUs and PCI devices: Placement does not know the NUMA cells of a host.
"""

from __future__ import annotations

import contextlib

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rtagent.errors import RequestError
from rtagent.model.claim import ACTIVE, BUILDING, INCOMING
from rtagent.model.decision import Granted
from rtagent.model.domain_usage import Occupancy
from rtagent.model.request import BuildRequest
from tests.servers import Placement
from tests.support.agents import facts
from tests.support.hosts import uid
from tests.support.published_host import (
    DEVICES,
    SPECS,
    PublishedHost,
    policy,
    requested,
    scheduled,
)

ADDRESSES = sorted(DEVICES)
requests = st.builds(
    requested,
    vcpus=st.sampled_from([1, 3, 8, 20]),
    memory_mb=st.sampled_from([512, 3000, 15000]),
    root_gb=st.sampled_from([1, 40]),
    vgpus=st.sampled_from([0, 0, 1, 2]),
    devices=st.sampled_from(
        [{}, {"gpu": 1}, {"gpu": 2}, {"vf": 1}, {"vf": 2}, {"gpu": 1, "vf": 1}]
    ),
)


class Life(RuleBasedStateMachine):
    """The life of one node. :ivar server: set before a run."""

    server: Placement

    def __init__(self) -> None:
        super().__init__()
        self.host = PublishedHost(self.server)
        self.specs = set(SPECS)

    def compare(self, request: BuildRequest) -> None:
        self.host.settle()
        candidates = self.host.candidates(request)
        for allocations, mappings in candidates:
            chosen = scheduled(request, allocations, mappings)
            decision = self.host.tracker.test_claim(chosen)
            assert isinstance(decision, Granted), f"{allocations}: {decision}"
        alone = self.host.tracker.test_claim(request)
        if isinstance(alone, Granted):
            assert candidates, "the agent grants what Placement does not offer"

    @rule(request=requests)
    def ask(self, request):
        self.compare(request)

    @rule(request=requests, data=st.data())
    def build(self, request, data):
        """Build a guest with one of the candidates."""
        self.host.settle()
        candidates = self.host.candidates(request)
        if candidates:
            number = data.draw(st.integers(0, 7)) % len(candidates)
            chosen = scheduled(request, *candidates[number])
            self.host.tracker.instance_claim(chosen, self.host.next_call("instance_claim"))
            self.host.settle()

    @rule(request=requests)
    def build_without_allocations(self, request):
        """Build a guest; the agent chooses."""
        self.host.audit()
        with contextlib.suppress(RequestError):
            self.host.tracker.instance_claim(request, self.host.next_call("instance_claim"))
        self.host.settle()

    def claims(self, *states):
        found = self.host.state.claims.values()
        return sorted((each for each in found if each.state in states), key=lambda c: c.uuid)

    @precondition(lambda self: self.claims(BUILDING))
    @rule(data=st.data())
    def run_guest(self, data):
        claim = data.draw(st.sampled_from(self.claims(BUILDING)))
        self.host.tracker.activate_claim(claim.uuid, self.host.next_call("activate_claim"))
        self.host.start_domain(claim)

    @precondition(lambda self: self.claims(BUILDING, ACTIVE))
    @rule(data=st.data(), gone=st.booleans())
    def release(self, data, gone):
        """Release a claim. Its domain may still run for a while."""
        claim = data.draw(st.sampled_from(self.claims(BUILDING, ACTIVE)))
        self.host.release(claim)
        if gone and claim.owner_id in self.host.world.domains:
            self.host.world.destroy(claim.owner_id)

    @precondition(lambda self: self.claims(ACTIVE))
    @rule(data=st.data(), request=requests)
    def resize(self, data, request):
        """Resize a guest on this host, and confirm, revert or wait."""
        # One guest has one move at a time.
        claim = data.draw(st.sampled_from(self.claims(ACTIVE)))
        if len(self.host.state.claims_of(claim.owner_id)) > 1:
            return
        move = facts("resize")
        flavor = request.instance.flavor
        self.host.audit()
        try:
            self.host.claim_move(move, flavor, owner=claim.owner_id, old=claim.flavor)
        except RequestError:
            return
        self.host.settle()
        step = data.draw(st.sampled_from(["wait", "confirm", "revert"]))
        owner = claim.owner_id
        if step == "revert":
            self.host.move("drop_move_claim_at_dest", move, owner)
        if step == "confirm":
            self.host.move("start_move_out", move, owner)
            self.host.move("finish_move", move, owner)
            self.host.move("drop_move_claim_at_source", move, owner)

    @precondition(lambda self: self.claims(INCOMING))
    @rule(data=st.data())
    def abort_move(self, data):
        claim = data.draw(st.sampled_from(self.claims(INCOMING)))
        self.host.release(claim)

    # What is reserved in Placement is a whole number of vCPUs before the ratio, which is 2 here. So
    # an odd number of foreign vCPUs would make Placement offer one less than the agent.
    @rule(device=st.sampled_from([None, *ADDRESSES]), vcpus=st.sampled_from([2, 4]))
    def start_foreign_domain(self, device, vcpus):
        used = {name for kind, name in self.host.state.units if kind == "PCI"}
        used |= {a for d in self.host.world.domains.values() for a in d.occupancy.devices}
        if device not in self.host.world.devices or device in used:
            device = None
        occupancy = Occupancy(devices=frozenset({device} if device else ()))
        self.host.world.start_domain(uid(), vcpus, 700, occupancy=occupancy)

    @precondition(lambda self: self.foreign())
    @rule(data=st.data())
    def stop_foreign_domain(self, data):
        self.host.world.destroy(data.draw(st.sampled_from(self.foreign())))

    def foreign(self):
        owners = {claim.owner_id for claim in self.host.state.claims.values()}
        return sorted(self.host.world.domains.keys() - owners)

    @rule(address=st.sampled_from(ADDRESSES))
    def plug(self, address):
        if address in self.host.world.devices:
            self.host.world.unplug(address)
        else:
            self.host.world.plug(DEVICES[address])

    @rule(address=st.sampled_from(ADDRESSES), reason=st.sampled_from(["it overheats", None]))
    def quarantine(self, address, reason):
        if address in self.host.state.devices:
            call = self.host.next_call("quarantine_device")
            self.host.tracker.set_quarantine(address, reason, call)

    @rule(spec=st.sampled_from(sorted(SPECS)), reserved=st.sampled_from([0, 700]))
    def reload(self, spec, reserved):
        self.specs ^= {spec}
        self.host.policy = policy(self.specs, reserved_memory_mb=reserved)
        self.host.tracker.set_policy(self.host.policy)

    @rule()
    def restart(self):
        self.host.start()

    @rule()
    def another_writer(self):
        """Another client writes to the provider, so that its generation is another."""
        path = f"/resource_providers/{self.host.node.uuid}/traits"
        found = self.host.api.get(path).json()
        body = {**found, "traits": sorted({*found["traits"], "HW_CPU_X86_VMX"} - self.flip(found))}
        assert self.host.api.put(path, json=body).status_code == 200

    @staticmethod
    def flip(found):
        return {"HW_CPU_X86_VMX"} if "HW_CPU_X86_VMX" in found["traits"] else set()


def test_placement_offers_what_the_agent_grants(server: Placement, long: bool) -> None:
    Life.server = server
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=200 if long else 10,
            stateful_step_count=25,
            deadline=None,
            phases=(Phase.explicit, Phase.generate, Phase.shrink) if long else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
