"""Any order of calls, audits, restarts, plugging and changes of what is offered: a book of who has
which device, kept by the answers alone, always agrees. What is held is held by one owner and never
forgotten, what a domain was seen to use is given to nobody, and all else is counted as it is."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from rtagent.audit import Auditor
from rtagent.compute_node import pci_device_pools
from rtagent.db.devices import DeviceRow, net_devices
from rtagent.db.memory import MemoryStore
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.kernel import restored
from rtagent.model.instance import Instance, InstanceUpdate, PciRequest
from rtagent.model.numa_usage import Occupancy
from rtagent.model.pci_policy import PciPolicy
from rtagent.model.request import AttachRequest
from rtagent.model.specific import EnabledType, SpecificInventory
from rtagent.pci.alias import parse_aliases
from rtagent.pci.holds import holdings
from rtagent.pci.spec import parse_specs
from rtagent.tracker import ResourceTracker
from rtagent.virt.fake import FakeHypervisor
from tests.builders import NODE, TOPOLOGY, ManualClock, call, host, request, uid
from tests.property.device_book import (
    CARDS,
    HARDWARE,
    MEMBERS,
    NAMES,
    NAMESPACES,
    PARTS,
    PRODUCTS,
    VGPU_TYPE,
    Book,
    Held,
    Line,
    Used,
    card,
    group,
    kin,
    member_uuid,
)
from tests.unit.test_kernel import enroll

OWNERS = [uid(n) for n in range(1, 5)]
STRANGERS = [uid(n) for n in range(8, 10)]
ADDRESSES = sorted(HARDWARE)
LEASE = 300
PMEM_CLASS = "CUSTOM_PMEM_NAMESPACE_4GB"
#: What flavors ask for.
ASKED = [
    {},
    {"gpu": 1},
    {"gpu": 2},
    {"vf": 1},
    {"vf": 2},
    {"pf": 1},
    {"card": 1},
    {"pf": 1, "vf": 1},
    {"gpu": 1, "vf": 1},
]


def ids(name: str) -> dict[str, str]:
    return {"vendor_id": KINDS[name].vendor_id, "product_id": PRODUCTS[name]}


KINDS = {NAMES[device.product_id]: device for device in HARDWARE.values()}
ALIASES = parse_aliases(
    [
        json.dumps({"name": name, "device_type": KINDS[name].dev_type, **ids(name)})
        for name in PRODUCTS
    ]
)


class RowStore(MemoryStore):
    """And what a database would show of devices. :ivar rows: by address."""

    def __init__(self):
        super().__init__()
        self.rows: dict[str, DeviceRow] = {}

    def commit(self, before, after, changes):
        super().commit(before, after, changes)
        rows = net_devices(before, after, changes)
        for address in rows.gone:
            del self.rows[address]
        assert not {row.address for row in rows.new} & self.rows.keys()
        assert {row.address for row in rows.changed} <= self.rows.keys()
        self.rows.update({row.address: row for row in (*rows.new, *rows.changed)})


class DevicesMachine(RuleBasedStateMachine):
    """``offered``: names of devices; ``once``: those that are for one use. ``vgpus``: whether
    mediated devices are. ``namespaces``: those of persistent memory."""

    def __init__(self):
        super().__init__()
        self.clock, self.store = ManualClock(), RowStore()
        self.world = FakeHypervisor(TOPOLOGY)
        self.world.plug(*HARDWARE.values())
        self.offered, self.once = set(PRODUCTS), set()
        self.vgpus = True
        self.namespaces: tuple[str, ...] = NAMESPACES
        self.book = Book()
        self.tracker = self.start()
        self.look()

    def start(self):
        return ResourceTracker(self.store, self.clock, enroll(self.store, self.policy()))

    def policy(self):
        specs = [
            json.dumps({**ids(name), **({"one_time_use": True} if name in self.once else {})})
            for name in sorted(self.offered)
        ]
        kind = EnabledType(
            type=VGPU_TYPE, addresses=None, resource_class="VGPU", max_instances=None
        )
        pmem = SpecificInventory(
            provider="", resource_class=PMEM_CLASS, identifiers=self.namespaces
        )
        pci = PciPolicy(
            specs=parse_specs(specs),
            aliases=ALIASES,
            mdev_types=(kind,) if self.vgpus else (),
            pmem=(pmem,) if self.namespaces else (),
        )
        return host(cpu_allocation_ratio=16, pci=pci).policy

    # -- calls ------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.named("build")) < len(OWNERS))
    @rule(
        data=st.data(),
        asked=st.sampled_from(ASKED),
        numa=st.booleans(),
        vgpus=st.sampled_from([0, 0, 1, 2]),
        namespaces=st.sampled_from([0, 0, 1]),
    )
    def claim(self, data, asked, numa, vgpus, namespaces):
        owner = data.draw(st.sampled_from([each for each in OWNERS if not self.book.of(each)]))
        specs = {"resources:VGPU": str(vgpus)} if vgpus else {}
        if asked:
            listed = ",".join(f"{name}:{count}" for name, count in asked.items())
            specs["pci_passthrough:alias"] = listed
        if numa:
            specs["hw:numa_nodes"] = "1"
        if namespaces:
            specs["hw:pmem"] = "4GB"
        # A guest with persistent memory has a cell, even if it asks for none.
        placed = numa or namespaces
        cells = [frozenset({0}), frozenset({1})] if placed else [frozenset()]
        fits = self.book.fits(owner, asked, cells, vgpus, namespaces)
        build = request(1, 64, owner=owner, extra_specs=specs)
        try:
            made = self.tracker.instance_claim(build, call(operation_id=build.claim_uuid))
        except ComputeResourcesUnavailable as refused:
            assert not fits, refused
        else:
            assert fits
            self.enter(made, "build", asked, vgpus + namespaces)

    @precondition(lambda self: self.book.claims)
    @rule(data=st.data(), name=st.sampled_from(["vf", "vf", "gpu", "pf"]), count=st.integers(1, 2))
    def attach(self, data, name, count):
        main = data.draw(st.sampled_from(self.named("build")))
        held = self.book.claims[main]
        fits = self.book.fits(held.owner, {name: count}, [held.cells])
        flavor = self.tracker.snapshot().claims[main].flavor
        asked = AttachRequest(
            claim_uuid=uid(),
            instance=Instance(uuid=held.owner, flavor=flavor),
            pci_requests=(PciRequest(count=count, alias_name=name),),
        )
        told = call("claim_pci_devices", operation_id=asked.claim_uuid)
        try:
            made = self.tracker.claim_pci_devices(asked, told)
        except ComputeResourcesUnavailable as refused:
            assert not fits, refused
        else:
            assert fits
            self.enter(made, "attach", {name: count}, 0, held.cells)

    def enter(self, made, kind, asked, members, cells=frozenset()):
        """What was granted is what was asked for, and each was to be had."""
        numa = made.numa_topology
        cells = frozenset(cell.id for cell in numa.cells) if numa else cells
        devices = [device.address for device in made.pci]
        names = Counter(NAMES[HARDWARE[address].product_id] for address in devices)
        assert names == Counter(asked)
        for address in devices:
            assert self.book.may_have(address, made.owner_id)
            assert not kin(address) & set(devices)
            assert not cells or HARDWARE[address].numa_node in cells
        mine = frozenset(unit.identifier for unit in made.resources)
        others = {m for held in self.book.claims.values() for m in held.members}
        others |= {m for o, u in self.book.foreign.items() if o != made.owner_id for m in u.members}
        assert len(mine) == members and not mine & others
        assert len({unit.provider for unit in made.resources if unit.provider}) <= 1
        self.book.claims[made.uuid] = Held(
            made.owner_id,
            kind,
            "building",
            frozenset(devices),
            mine,
            cells,
            self.clock.monotonic() + LEASE,
        )

    def named(self, kind):
        return sorted(uuid for uuid, held in self.book.claims.items() if held.kind == kind)

    def any_claim(self, data):
        return data.draw(st.sampled_from(sorted(self.book.claims)))

    @precondition(lambda self: self.book.claims)
    @rule(data=st.data())
    def activate(self, data):
        uuid = self.any_claim(data)
        held = self.book.claims[uuid]
        if held.kind == "attach":
            told = call("allocate_pci_devices_for_instance")
            self.tracker.allocate_pci_devices(held.owner, uuid, told)
        else:
            self.tracker.activate_claim(uuid, call("activate_claim"))
        held.state = "active"

    @precondition(lambda self: self.book.claims)
    @rule(data=st.data(), verb=st.sampled_from(["abort_instance_claim", "release_claim", "delete"]))
    def end(self, data, verb):
        self.end_claim(self.any_claim(data), verb)

    @precondition(lambda self: self.named("attach"))
    @rule(data=st.data(), verb=st.sampled_from(["abort_instance_claim", "release_claim"]))
    def end_a_guest_with_added_devices(self, data, verb):
        added = data.draw(st.sampled_from(self.named("attach")))
        (main,) = self.book.of(self.book.claims[added].owner, "build")
        self.end_claim(main, verb)

    def end_claim(self, uuid, verb):
        before = self.book.claimed()
        ends = [uuid]
        if verb == "delete":
            owner = self.book.claims[uuid].owner
            ends = list(self.book.of(owner))
            news = InstanceUpdate(uuid=owner, vm_state="deleted")
            self.tracker.update_usage(news, call("update_usage"))
        else:
            getattr(self.tracker, verb)(uuid, call(verb))
        self.book.end(ends)
        self.book.freed(before)

    @precondition(lambda self: self.named("attach"))
    @rule(data=st.data(), verb=st.sampled_from(["unclaim", "free"]))
    def detach(self, data, verb):
        """All that were only claimed, or all that the guest had."""
        owner = self.book.claims[data.draw(st.sampled_from(self.named("attach")))].owner
        state = {"unclaim": "building", "free": "active"}[verb]
        before = self.book.claimed()
        self.tracker.end_pci_claims(owner, None, verb, call(verb))
        its = self.book.of(owner, "attach")
        self.book.end(uuid for uuid, held in its.items() if held.state == state)
        self.book.freed(before)

    @precondition(lambda self: self.book.lines)
    @rule(data=st.data(), reason=st.sampled_from(["for the operator", None, None]))
    def the_operator_keeps_back_or_clears(self, data, reason):
        address = data.draw(st.sampled_from(sorted(self.book.lines)))
        self.tracker.set_quarantine(address, reason, call("quarantine"))
        self.book.lines[address].back = reason is not None

    # -- the world --------------------------------------------------------------------------------

    def idle(self, address, but=None):
        """Whether a domain could be given it now, whatever anybody claims."""
        running = [d for u, d in self.world.domains.items() if d.active and u != but]
        busy = {a for domain in running for a in domain.occupancy.devices}
        parts = {m.parent_addr for m in self.world.mdevs.values()}
        near = {address} | kin(address) | group(address)
        return address in self.world.devices and not near & busy and address not in parts

    @precondition(lambda self: self.book.claims)
    @rule(data=st.data())
    def a_guest_starts(self, data):
        """With all that was claimed for it, if the world lets it."""
        owner = self.book.claims[self.any_claim(data)].owner
        its = self.book.of(owner).values()
        devices = frozenset(a for held in its for a in held.devices)
        members = [m for held in its for m in held.members if "/" in m]
        if all(self.idle(address, owner) for address in devices):
            uuids = [self.create(member_uuid(m), m.partition("/")[0]) for m in members]
            if all(uuids):
                self.run(owner, devices, uuids)

    @rule(
        owner=st.sampled_from(OWNERS + STRANGERS),
        addresses=st.lists(st.sampled_from(ADDRESSES), max_size=2, unique=True),
        data=st.data(),
    )
    def a_domain_starts_with_anything(self, owner, addresses, data):
        chosen: set[str] = set()
        for address in addresses:
            if self.idle(address, owner) and not kin(address) & chosen:
                chosen.add(address)
        busy = {u for d in self.world.domains.values() if d.active for u in d.occupancy.mdevs}
        spare = sorted(self.world.mdevs.keys() - busy)
        mdevs = data.draw(st.lists(st.sampled_from(spare), max_size=1)) if spare else []
        self.run(owner, chosen, mdevs)

    def run(self, owner, devices, mdevs):
        occupancy = Occupancy(devices=frozenset(devices), mdevs=frozenset(mdevs))
        self.world.start_domain(owner, 1, 64, occupancy=occupancy)

    @precondition(lambda self: self.world.domains)
    @rule(data=st.data(), stays=st.booleans())
    def a_domain_ends(self, data, stays):
        owner = data.draw(st.sampled_from(sorted(self.world.domains)))
        (self.world.shut_off if stays else self.world.destroy)(owner)

    @rule(data=st.data())
    def a_mediated_device_comes_or_goes(self, data):
        uuid = data.draw(st.sampled_from([None, *sorted(self.world.mdevs)]))
        if uuid is None:
            self.create(uid(), data.draw(st.sampled_from(CARDS)))
        elif not any(uuid in d.occupancy.mdevs for d in self.world.domains.values() if d.active):
            address = self.world.mdevs[uuid].parent_addr
            self.world.destroy_mdev(uuid)
            there = [m for m in self.world.mdevs.values() if m.parent_addr == address]
            self.world.plug(card(address, PARTS - len(there)))

    def create(self, uuid, address):
        """Its uuid, if the card can make it or has made it."""
        busy = {a for d in self.world.domains.values() if d.active for a in d.occupancy.devices}
        there = [m for m in self.world.mdevs.values() if m.parent_addr == address]
        if uuid not in self.world.mdevs:
            if address not in self.world.devices or len(there) == PARTS or address in busy:
                return None
            self.world.create_mdev(uuid, VGPU_TYPE, address)
            self.world.plug(card(address, PARTS - len(there) - 1))
        return uuid

    @rule(
        address=st.sampled_from([a for a in ADDRESSES if a not in CARDS]),
        what=st.sampled_from(["gone", "there", "another"]),
    )
    def plug(self, address, what):
        """Even if somebody has it. A card's virtual functions go with it; what is there instead of
        one is of a kind that nobody ever asks for."""
        device = HARDWARE[address]
        if what == "gone":
            gone = {address} | {a for a in kin(address) if HARDWARE[a].parent_addr == address}
            self.world.unplug(*(gone & self.world.devices.keys()))
        elif device.parent_addr is None or device.parent_addr in self.world.devices:
            other = what == "another" and not kin(address)
            self.world.plug(replace(device, product_id="ffff") if other else device)

    # -- the operator -----------------------------------------------------------------------------

    @rule(
        name=st.sampled_from([*sorted(PRODUCTS), "vgpus", "namespaces"]),
        once=st.booleans(),
        number=st.integers(0, 2),
    )
    def the_operator_offers_something_else(self, name, once, number):
        """More of it, less, or for one use only."""
        if name == "vgpus":
            self.vgpus = not self.vgpus
        elif name == "namespaces":
            self.namespaces = NAMESPACES[:number]
        elif once and name != "vf":  # of which it is not to be said
            self.once ^= {name}
        else:
            self.offered ^= {name}
        self.tracker.set_policy(self.policy())

    # -- time -------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, LEASE + 1]))
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @rule()
    def restart(self):
        self.tracker = self.start()
        for held in self.book.claims.values():
            held.lapses = self.clock.monotonic() + LEASE

    @rule(
        listed=st.sampled_from([True, True, False]), complete=st.sampled_from([True, True, False])
    )
    def audit(self, listed, complete):
        self.look(listed, complete)

    def look(self, listed=True, complete=True):
        self.world.unlisted, self.world.incomplete = not listed, not complete
        summary = Auditor(self.tracker, self.world, self.clock).run("test")
        assert summary.skipped == 0
        before = self.book.claimed() | self.book.used()
        self.see_claims(complete)
        self.see_domains(complete)
        running = [d for d in self.world.domains.values() if d.active]
        self.book.namespaces = self.namespaces
        if listed:
            held = before.union(*(domain.occupancy.devices for domain in running))
            self.see_devices(held)
            self.see_cards()
        self.book.freed(before)

    def see_claims(self, complete):
        now, over = self.clock.monotonic(), []
        for uuid, held in self.book.claims.items():
            domain = self.world.domains.get(held.owner)
            here = domain is not None and (
                held.kind == "build" or held.devices <= domain.occupancy.devices
            )
            if held.state == "building" and here:
                held.state = "active"
            elif held.state == "building" and complete and held.lapses <= now:
                over.append(uuid)
        self.book.end(over)

    def see_domains(self, complete):
        for owner in list(self.book.foreign):
            if owner not in self.world.domains and complete:
                del self.book.foreign[owner]
        for owner, domain in self.world.domains.items():
            uses = domain.occupancy
            its = self.book.of(owner).values()
            given = {a for h in its if h.kind == "build" or h.state == "active" for a in h.devices}
            being = {a for held in its for a in held.devices}
            mdevs = {member_uuid(m) for held in its for m in held.members if "/" in m}
            agrees = given <= uses.devices <= being and uses.mdevs == mdevs
            if not domain.active or (self.book.of(owner, "build") and agrees):
                self.book.foreign[owner] = Used()
            else:
                ours = frozenset(MEMBERS[uuid] for uuid in uses.mdevs if uuid in MEMBERS)
                made = [m for m in self.world.mdevs.values() if m.uuid in uses.mdevs]
                cards = frozenset(mdev.parent_addr for mdev in made)
                self.book.foreign[owner] = Used(uses.devices, ours, cards)

    def see_devices(self, held):
        old, lines = self.book.lines, {}
        for address, device in self.world.devices.items():
            name = NAMES.get(device.product_id)
            if name in self.offered:
                lines[address] = Line(device.product_id, once=name in self.once)
            elif address in held:
                lines[address] = Line(device.product_id, listed=False)
        for address, line in old.items():
            if address not in held and not line.back:
                continue
            new, there = lines.get(address), self.world.devices.get(address)
            if there is None or there.product_id != line.product:
                line.present = False
            elif new is None or not new.listed:
                line.present, line.listed = True, False
            else:
                new.back = line.back
                continue
            lines[address] = line
        self.book.lines = lines

    def see_cards(self):
        self.book.made = {}
        for address in CARDS:
            theirs = [
                m
                for m in self.world.mdevs.values()
                if m.parent_addr == address and m.uuid not in MEMBERS
            ]
            if self.vgpus:
                self.book.made[address] = PARTS - len(theirs)

    # -- what always holds ------------------------------------------------------------------------

    @invariant()
    def the_claims_are_what_was_answered(self):
        state = self.tracker.snapshot()
        state.check()
        told = {
            uuid: (
                claim.owner_id,
                claim.kind,
                claim.state,
                frozenset(device.address for device in claim.pci),
                frozenset(unit.identifier for unit in claim.resources),
            )
            for uuid, claim in state.claims.items()
        }
        assert told == {
            uuid: (held.owner, held.kind, held.state, held.devices, held.members)
            for uuid, held in self.book.claims.items()
        }

    @invariant()
    def nothing_has_two_owners(self):
        claims = list(self.book.claims.values())
        held = Counter(a for claim in claims for a in claim.devices)
        held += Counter(m for claim in claims for m in claim.members)
        assert not held or max(held.values()) == 1
        for claim in claims:
            for address in claim.devices:
                assert not kin(address) & self.book.claimed()
                for other in claims:
                    assert other.owner == claim.owner or not group(address) & other.devices

    @invariant()
    def the_record_is_what_was_seen_and_nothing_held_is_forgotten(self):
        devices = self.tracker.snapshot().devices
        assert {
            address: (
                each.device.product_id,
                each.tags.one_time_use,
                each.present,
                each.listed,
                each.quarantine is not None,
            )
            for address, each in devices.items()
        } == {address: line.told for address, line in self.book.lines.items()}
        assert self.book.claimed() <= set(devices)

    @invariant()
    def pools_count_what_is_to_be_had(self):
        pools: Counter = Counter()
        for pool in pci_device_pools(self.tracker.snapshot()):
            pools[pool["product_id"], pool["numa_node"]] += pool["count"]
        assert pools == self.book.available()

    @invariant()
    def rows_show_who_has_what(self):
        lines = holdings(self.tracker.snapshot())
        for address, row in self.store.rows.items():
            line = lines.state(address)
            assert (row.status, row.instance_uuid) == (line.state, line.owner_id)
            owners = self.book.owners_of(address) | self.book.owners_of_parts(address)
            assert (row.instance_uuid in owners) if owners else row.instance_uuid is None
        assert self.store.rows.keys() == set(self.tracker.snapshot().devices)

    @invariant()
    def a_restart_would_find_the_same(self):
        state = self.tracker.snapshot()
        again = restored(self.store.load(NODE.uuid), state.policy)
        for name in ("claims", "holdings", "units", "devices", "usage", "counters", "revision"):
            assert getattr(again, name) == getattr(state, name), name
        assert again.specific == state.specific


# Few and long: it takes some steps until there is something to be lost.
DevicesMachine.TestCase.settings = settings(
    stateful_step_count=150, max_examples=settings.default.max_examples // 5
)
TestDevices = DevicesMachine.TestCase
