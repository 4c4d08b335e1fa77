"""Placement offers this host exactly when the agent grants the claim, after any life of the node.

After any steps the node is published and the allocations of all its guests are written, by the test
as the conductor does or by the agent. Then each of Placement's allocation candidates for a request
is granted with the allocations of that candidate, and there is a candidate whenever the agent would
grant the request. The requests have plain quantities, virtual GPUs, PCI devices and what a provider
file offers: Placement does not know the NUMA cells of a host.
"""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from rtagent.claims import activate_claim, instance_claim, release_claim
from rtagent.errors import PlacementUnavailable, RequestError
from rtagent.lifecycle.attach import allocate_pci_devices, claim_pci_devices, quarantine
from rtagent.model.claim import ACTIVE, ATTACH, BUILDING, INCOMING
from rtagent.model.decision import Granted
from rtagent.model.domain_usage import Occupancy
from rtagent.model.migration import MigrationFacts
from rtagent.model.policy import ManageAllocations
from rtagent.model.request import AttachRequest, BuildRequest, Instance, PciRequest
from tests.functional.placement.published_host import (
    DEVICES,
    LICENCE,
    ONE_TIME,
    SPECS,
    PublishedHost,
    policy,
    requested,
    scheduled,
)
from tests.servers import Placement
from tests.support.agents import facts
from tests.support.hosts import uid

ADDRESSES = sorted(DEVICES)
#: Even numbers of vCPUs: what a guest uses without a claim is reserved, and in Placement that is a
#: whole number before the ratio, which is 2 here. So an odd one would make Placement offer one less
#: than the agent.
requests = st.builds(
    requested,
    vcpus=st.sampled_from([2, 4, 8, 20]),
    memory_mb=st.sampled_from([512, 3000, 15000]),
    root_gb=st.sampled_from([1, 40]),
    vgpus=st.sampled_from([0, 0, 1, 2]),
    licences=st.sampled_from([0, 0, 1, 3]),
    devices=st.sampled_from(
        [
            *({}, {"gpu": 1}, {"gpu": 2}, {"vf": 1}, {"vf": 2}, {"gpu": 1, "vf": 1}),
            *({"once": 1}, {"once": 1, "vf": 1}),
        ]
    ),
)
MOVES = st.sampled_from(["resize", "migration", "live-migration", "evacuation"])
#: The requests of mirror and outbox at which something happens.
WRITES = ["put_traits", "put_inventories", "create_provider", "put_consumer", "post_consumers"]
READS = ["provider", "traits", "inventories", "consumer", "allocations"]


class Life(RuleBasedStateMachine):
    """The life of one node.

    :ivar server: set before a run. :ivar manage: who writes allocations; set before a run.
    :ivar moves: the moves under way, and the calls that end each as it was meant, by owner.
    """

    server: Placement
    manage: ManageAllocations

    def __init__(self) -> None:
        super().__init__()
        self.host = PublishedHost(self.server, self.manage)
        self.specs, self.licences = set(SPECS), 0
        self.moves: dict[str, tuple[MigrationFacts, list[str]]] = {}

    # -- checks -----------------------------------------------------------------------------------

    def settle(self) -> bool:
        """Have everything published and written, and check that."""
        if not self.host.settle():
            return False
        self.host.check_allocations()
        return True

    def compare(self, request: BuildRequest) -> None:
        if not self.settle():
            return
        candidates = self.host.candidates(request)
        for allocations, mappings in candidates:
            chosen = scheduled(request, allocations, mappings)
            decision = self.host.tracker.test_claim(instance_claim, chosen)
            assert isinstance(decision, Granted), f"{allocations}: {decision}"
        alone = self.host.tracker.test_claim(instance_claim, request)
        if isinstance(alone, Granted):
            assert candidates, "the agent grants what Placement does not offer"

    @rule(request=requests)
    def ask(self, request):
        self.compare(request)

    def teardown(self):
        self.compare(requested())

    # -- guests -----------------------------------------------------------------------------------

    def claims(self, *states):
        """The claims in these states, without those for attached devices."""
        found = (each for each in self.host.state.claims.values() if each.kind != ATTACH)
        return sorted((each for each in found if each.state in states), key=lambda c: c.uuid)

    def changeable(self):
        """The active claims of guests whose allocations can be written again. While a device for
        one use is reserved Placement refuses that, and only an agent that writes allocations knows
        that it has to wait.
        """
        held = {owner for (_, name), owner in self.host.state.units.items() if name in ONE_TIME}
        written_by_others = self.manage == ManageAllocations.NO
        found = self.claims(ACTIVE)
        return [each for each in found if not (written_by_others and each.owner_id in held)]

    def can_arrive(self, request: BuildRequest) -> bool:
        aliases = {each.alias_name for each in request.instance.pci_requests}
        return self.manage != ManageAllocations.NO or "once" not in aliases

    def make(self, claim: Callable[[], object]) -> bool:
        """Make a claim, whose allocations are written before anything else is published."""
        written_by_others = self.manage == ManageAllocations.NO
        if written_by_others:
            self.settle()
        self.host.audit()
        try:
            claim()
        except RequestError:
            return False
        if written_by_others:
            self.settle()
        return True

    def start_guest(self, owner: str) -> None:
        """Activate what the guest has, and start its domain."""
        for claim in self.host.state.claims_of(owner):
            if claim.state == BUILDING and claim.kind != ATTACH:
                self.host.tracker.change(
                    activate_claim, self.host.next_call("activate_claim"), claim.uuid
                )
        claims = [each for each in self.claims(ACTIVE) if each.owner_id == owner]
        if len(claims) == 1:
            self.host.start_domain(claims[0])

    @rule(request=requests, data=st.data(), starts=st.booleans())
    def build(self, request, data, starts):
        """Build a guest with one of the candidates."""
        self.settle()
        candidates = self.host.candidates(request)
        if candidates:
            number = data.draw(st.integers(0, 7)) % len(candidates)
            chosen = scheduled(request, *candidates[number])
            self.host.tracker.create(instance_claim, self.host.next_call("instance_claim"), chosen)
            if starts:
                self.start_guest(request.instance.uuid)
            if self.manage == ManageAllocations.NO:
                self.settle()

    @rule(request=requests)
    def build_without_allocations(self, request):
        """Build a guest; the agent chooses."""
        call = self.host.next_call("instance_claim")
        if self.make(lambda: self.host.tracker.create(instance_claim, call, request)):
            self.start_guest(request.instance.uuid)

    @precondition(lambda self: self.claims(BUILDING))
    @rule(data=st.data())
    def run_guest(self, data):
        claim = data.draw(st.sampled_from(self.claims(BUILDING)))
        self.start_guest(claim.owner_id)

    @precondition(lambda self: self.claims(BUILDING, ACTIVE))
    @rule(data=st.data(), gone=st.booleans())
    def release(self, data, gone):
        """Release a claim. Its domain may still run for a while."""
        claim = data.draw(st.sampled_from(self.claims(BUILDING, ACTIVE)))
        self.host.release(claim)
        if gone and claim.owner_id in self.host.world.domains:
            self.host.world.destroy(claim.owner_id)

    @precondition(lambda self: self.changeable())
    @rule(data=st.data(), alias=st.sampled_from(["gpu", "vf", "once"]))
    def attach(self, data, alias):
        """Attach a device, or detach those that are attached."""
        claim = data.draw(st.sampled_from(self.changeable()))
        owner, tracker = claim.owner_id, self.host.tracker
        attached = [c.uuid for c in self.host.state.claims_of(owner) if c.kind == ATTACH]
        request = AttachRequest(
            instance=Instance(uuid=owner, flavor=claim.flavor),
            pci_requests=(PciRequest(request_id="attached", alias_name=alias, count=1),),
        )
        call = self.host.next_call("claim_pci_devices")
        if attached:
            verb = "free_pci_device_allocations_for_instance"
            tracker.execute(release_claim, self.host.next_call(verb), attached[0])
        elif self.make(lambda: tracker.create(claim_pci_devices, call, request)):
            more = self.host.next_call("allocate_pci_devices_for_instance")
            tracker.change(allocate_pci_devices, more, owner, call.operation_id)

    @rule(seconds=st.sampled_from([10, 400]))
    def wait(self, seconds):
        """Leases of claims lapse."""
        self.host.clock.advance(seconds)

    # -- moves ------------------------------------------------------------------------------------

    @precondition(lambda self: self.changeable())
    @rule(data=st.data(), request=requests, leaves=st.booleans())
    def resize(self, data, request, leaves):
        """Resize a guest on this host. :param leaves: the source's claim is outgoing already."""
        claim = data.draw(st.sampled_from(self.changeable()))
        owner = claim.owner_id
        if owner in self.moves or len(self.host.state.claims_of(owner)) > 1:
            return
        if not self.can_arrive(request):
            return
        move, flavor = facts("resize"), request.instance.flavor
        if self.make(lambda: self.host.claim_move(move, flavor, owner, claim.flavor)):
            if leaves:
                self.host.move("start_move_out", move, owner)
            rest = ["start_move_out", "finish_move", "drop_move_claim_at_source"]
            self.moves[owner] = (move, rest[leaves:])

    @rule(request=requests, kind=MOVES)
    def arrive(self, request, kind):
        """A guest comes from another host."""
        move, owner, flavor = facts(kind), request.instance.uuid, request.instance.flavor
        if self.can_arrive(request) and self.make(
            lambda: self.host.claim_move(move, flavor, owner, flavor)
        ):
            finish = "finish_evacuation" if kind == "evacuation" else "finish_move"
            self.moves[owner] = (move, [finish])

    @precondition(lambda self: self.changeable())
    @rule(data=st.data(), kind=st.sampled_from(["resize", "live-migration"]))
    def leave(self, data, kind):
        """A guest goes to another host."""
        owner = data.draw(st.sampled_from(self.changeable())).owner_id
        if owner not in self.moves:
            move = facts(kind)
            self.host.move("start_move_out", move, owner)
            self.moves[owner] = (move, ["drop_move_claim_at_source"])

    @precondition(lambda self: self.moves)
    @rule(data=st.data(), end=st.sampled_from(["confirm", "confirm", "revert", "fail"]))
    def end_move(self, data, end):
        """End a move. Its claims may have been released meanwhile."""
        owner = data.draw(st.sampled_from(sorted(self.moves)))
        move, rest = self.moves.pop(owner)
        leaves = rest == ["drop_move_claim_at_source"]
        verbs = {
            "confirm": rest,
            "revert": ["finish_revert"] if leaves else ["drop_move_claim_at_dest", "finish_revert"],
            "fail": ["drop_move_claim"],
        }[end]
        if leaves and end == "confirm" and owner in self.host.world.domains:
            self.host.world.destroy(owner)
        for verb in verbs:
            with contextlib.suppress(RequestError):
                self.host.move(verb, move, owner)
        self.start_guest(owner)

    @precondition(lambda self: self.claims(INCOMING))
    @rule(data=st.data())
    def abort_move(self, data):
        claim = data.draw(st.sampled_from(self.claims(INCOMING)))
        self.host.release(claim)

    # -- the host ---------------------------------------------------------------------------------

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
        self.set_quarantine(address, reason)

    @rule(address=st.sampled_from(ONE_TIME))
    def clean(self, address):
        """Make a device for one use available again."""
        self.set_quarantine(address, None)

    def set_quarantine(self, address, reason):
        if address in self.host.state.devices:
            call = self.host.next_call("quarantine_device")
            self.host.tracker.execute(quarantine, call, address, reason)

    @rule(spec=st.sampled_from(sorted(SPECS)), reserved=st.sampled_from([0, 700]))
    def reload(self, spec, reserved):
        self.specs ^= {spec}
        self.set_policy(reserved_memory_mb=reserved)

    @rule(licences=st.sampled_from([0, 4, 6]))
    def change_provider_file(self, licences):
        """The file comes, changes or goes. It goes only after the last guest that has what it
        offers: until then the mirror has a problem to report.
        """
        flavors = (each.flavor for each in self.host.state.claims.values())
        if licences or not any(f"resources:{LICENCE}" in each.extra_specs for each in flavors):
            self.licences = licences
            self.set_policy()

    def set_policy(self, **more):
        self.host.policy = policy(self.specs, self.licences, self.manage, **more)
        self.host.tracker.set_policy(self.host.policy)

    @rule()
    def restart(self):
        self.host.start()

    # -- Placement --------------------------------------------------------------------------------

    @rule()
    def another_writer(self):
        self.host.change_traits()

    @rule(request=st.sampled_from(["put_traits", "put_inventories"]))
    def conflict(self, request):
        """Another client writes to the root provider between a read and a write."""
        self.host.meddler.before[request] = self.host.change_traits

    @rule(request=st.sampled_from([*WRITES, *READS]), executed=st.booleans())
    def outage(self, request, executed):
        """A request of a kind fails, before or after it had its effect."""

        def fail():
            raise PlacementUnavailable("no answer")

        hooks = self.host.meddler.after if executed else self.host.meddler.before
        hooks[request] = fail

    @precondition(lambda self: self.claims(ACTIVE))
    @rule(data=st.data(), when=st.sampled_from(["now", *WRITES[-2:]]))
    def allocate_elsewhere(self, data, when):
        """Another service allocates for a guest, now or between a read and a write of the agent."""
        owner = data.draw(st.sampled_from(self.claims(ACTIVE))).owner_id
        if when == "now":
            self.host.allocate_elsewhere(owner)
        else:
            self.host.meddler.before[when] = lambda: self.host.allocate_elsewhere(owner)

    @precondition(lambda self: self.changeable())
    @rule(data=st.data())
    def remove_allocation(self, data):
        owner = data.draw(st.sampled_from(self.changeable())).owner_id
        self.host.remove_allocation(owner)


@pytest.mark.parametrize("manage", [ManageAllocations.NO, ManageAllocations.YES])
def test_placement_offers_what_the_agent_grants(
    server: Placement, long: bool, manage: ManageAllocations
) -> None:
    Life.server, Life.manage = server, manage
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=200 if long else 3,
            stateful_step_count=40 if long else 30,
            deadline=None,
            phases=(Phase.explicit, Phase.generate, Phase.shrink) if long else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
