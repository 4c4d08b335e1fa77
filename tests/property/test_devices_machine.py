"""Any order of calls, audits, restarts, hot-plug and changes of options: the agent agrees with a
model that is kept from its answers alone. A claimed device has one owner and stays recorded, a
device that a domain uses is not assigned, and pools count all available devices."""

import json
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from rtagent import claims
from rtagent.audit import Auditor
from rtagent.claims import activate_claim, instance_claim, update_usage
from rtagent.db.device_rows import DeviceRow, net_devices
from rtagent.errors import ComputeResourcesUnavailable, HypervisorUnavailable
from rtagent.lifecycle.attach import (
    allocate_pci_devices,
    claim_pci_devices,
    end_pci_claims,
    give_back_devices,
    quarantine,
)
from rtagent.model.assignment import PmemNamespace, ResourceInventory
from rtagent.model.change import Change
from rtagent.model.domain_usage import Occupancy
from rtagent.model.node_state import restore
from rtagent.model.policy import EnabledMdevType, PciPolicy
from rtagent.model.request import AttachRequest, Instance, InstanceUpdate, PciRequest
from rtagent.pci.allocations import device_allocations
from rtagent.pci.specs import parse_aliases, parse_specs
from rtagent.state.compute_node import pci_device_pools
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryStore
from rtagent.tracker import ResourceTracker
from tests.property.device_model import (
    CARDS,
    HARDWARE,
    IDENTIFIERS,
    MDEVS_PER_CARD,
    NAMES,
    NAMESPACES,
    PRODUCTS,
    VGPU_TYPE,
    DeviceModel,
    ModelClaim,
    ModelDevice,
    ModelUsage,
    card,
    functions,
    group,
    mdev_uuid,
)
from tests.support.audits import check_views
from tests.support.hosts import NODE, TOPOLOGY, ManualClock, call, host, request, uid
from tests.support.trackers import enroll

OWNERS = [uid(n) for n in range(1, 5)]
FOREIGN = [uid(n) for n in range(8, 10)]
ADDRESSES = sorted(HARDWARE)
LEASE = 300
PMEM_CLASS = "CUSTOM_PMEM_NAMESPACE_4GB"
HOST_NAMESPACES = {
    name: PmemNamespace(name=name, path=f"/dev/dax{number}.0", size_kb=4096, align_kb=2048)
    for number, name in enumerate(NAMESPACES)
}
#: Devices that flavors request, by name.
REQUESTS = [
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
    return {"vendor_id": EXAMPLES[name].vendor_id, "product_id": PRODUCTS[name]}


EXAMPLES = {NAMES[device.product_id]: device for device in HARDWARE.values()}
ALIASES = parse_aliases(
    [
        json.dumps({"name": name, "device_type": EXAMPLES[name].dev_type, **ids(name)})
        for name in PRODUCTS
    ]
)


class RowStore(MemoryStore):
    """A store that also has the device rows of a database. :ivar rows: by address."""

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
    """``listed``: the names of devices with a specification; ``one_time``: those with the tag
    `one_time_use`. ``vgpus``: whether mediated devices are enabled. ``namespaces``: those of
    persistent memory."""

    def __init__(self):
        super().__init__()
        self.clock, self.store = ManualClock(), RowStore()
        self.world = FakeHypervisor(TOPOLOGY)
        self.world.plug(*HARDWARE.values())
        self.world.namespaces = dict(HOST_NAMESPACES)
        self.listed, self.one_time = set(PRODUCTS), set()
        self.vgpus = True
        self.namespaces: tuple[str, ...] = NAMESPACES
        self.model = DeviceModel()
        self.tracker = self.start()
        self.run_audit()

    def start(self):
        return ResourceTracker(self.store, self.clock, enroll(self.store, self.policy()))

    def policy(self):
        specs = [
            json.dumps({**ids(name), **({"one_time_use": True} if name in self.one_time else {})})
            for name in sorted(self.listed)
        ]
        vgpu_type = EnabledMdevType(
            type=VGPU_TYPE, addresses=None, resource_class="VGPU", max_instances=None
        )
        pmem = ResourceInventory(
            provider="", resource_class=PMEM_CLASS, identifiers=self.namespaces
        )
        pci = PciPolicy(
            specs=parse_specs(specs),
            aliases=ALIASES,
            mdev_types=(vgpu_type,) if self.vgpus else (),
            pmem=(pmem,) if self.namespaces else (),
        )
        return host(cpu_allocation_ratio=16, pci=pci).policy

    # --- calls ---

    @precondition(lambda self: len(self.claim_uuids("build")) < len(OWNERS))
    @rule(
        data=st.data(),
        requested=st.sampled_from(REQUESTS),
        numa=st.booleans(),
        vgpus=st.sampled_from([0, 0, 1, 2]),
        namespaces=st.sampled_from([0, 0, 1]),
    )
    def claim(self, data, requested, numa, vgpus, namespaces):
        without_claims = [each for each in OWNERS if not self.model.claims_of(each)]
        owner = data.draw(st.sampled_from(without_claims))
        specs = {"resources:VGPU": str(vgpus)} if vgpus else {}
        if requested:
            listed = ",".join(f"{name}:{count}" for name, count in requested.items())
            specs["pci_passthrough:alias"] = listed
        if numa:
            specs["hw:numa_nodes"] = "1"
        if namespaces:
            specs["hw:pmem"] = "4GB"
        # A guest with persistent memory has a cell, even if it requests none.
        has_cell = numa or namespaces
        placements = [frozenset({0}), frozenset({1})] if has_cell else [frozenset()]
        fits = self.model.fits(owner, requested, placements, vgpus, namespaces)
        build = request(1, 64, owner=owner, extra_specs=specs)
        try:
            claim = self.tracker.create(instance_claim, call(), build)
        except ComputeResourcesUnavailable as refusal:
            assert not fits, refusal
        except HypervisorUnavailable:
            assert not self.was_observed(bool(requested or vgpus))
        else:
            assert fits and self.was_observed(bool(requested or vgpus))
            self.add_claim(claim, "build", requested, vgpus + namespaces)

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data(), name=st.sampled_from(["vf", "vf", "gpu", "pf"]), count=st.integers(1, 2))
    def attach(self, data, name, count):
        main = data.draw(st.sampled_from(self.claim_uuids("build")))
        expected = self.model.claims[main]
        fits = self.model.fits(expected.owner, {name: count}, [expected.cells])
        flavor = self.tracker.snapshot().claims[main].flavor
        attach_request = AttachRequest(
            instance=Instance(uuid=expected.owner, flavor=flavor),
            pci_requests=(PciRequest(count=count, alias_name=name),),
        )
        attach_call = call("claim_pci_devices")
        try:
            claim = self.tracker.create(claim_pci_devices, attach_call, attach_request)
        except ComputeResourcesUnavailable as refusal:
            assert not fits, refusal
        except HypervisorUnavailable:
            assert not self.was_observed(with_devices=True)
        else:
            assert fits and self.was_observed(with_devices=True)
            self.add_claim(claim, "attach", {name: count}, 0, expected.cells)

    def was_observed(self, with_devices):
        """Whether the last audit observed what a claim needs."""
        return self.complete and (self.all_listed or not with_devices)

    def add_claim(self, claim, kind, requested, resource_count, cells=frozenset()):
        """Check that the claim has what was requested and was available; add it to the model."""
        numa = claim.numa_topology
        cells = frozenset(cell.id for cell in numa.cells) if numa else cells
        devices = [device.address for device in claim.pci]
        names = Counter(NAMES[HARDWARE[address].product_id] for address in devices)
        assert names == Counter(requested)
        for address in devices:
            assert self.model.available(address, claim.owner_id)
            assert not functions(address) & set(devices)
            assert not cells or HARDWARE[address].numa_node in cells
        resources = frozenset(resource.identifier for resource in claim.resources)
        others = {name for each in self.model.claims.values() for name in each.resources}
        for owner, usage in self.model.foreign.items():
            others |= usage.resources if owner != claim.owner_id else set()
        assert len(resources) == resource_count and not resources & others
        parents = {each.parent_addr for each in claim.resources if each.parent_addr}
        assert len(parents) <= 1 and not parents & set(devices)
        self.model.claims[claim.uuid] = ModelClaim(
            claim.owner_id,
            kind,
            "building",
            frozenset(devices),
            resources,
            cells,
            self.clock.monotonic() + LEASE,
        )

    def claim_uuids(self, kind):
        return sorted(uuid for uuid, claim in self.model.claims.items() if claim.kind == kind)

    def any_claim(self, data):
        return data.draw(st.sampled_from(sorted(self.model.claims)))

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data())
    def activate(self, data):
        uuid = self.any_claim(data)
        claim = self.model.claims[uuid]
        if claim.kind == "attach":
            allocate_call = call("allocate_pci_devices_for_instance")
            self.tracker.change(allocate_pci_devices, allocate_call, claim.owner, uuid)
        else:
            self.tracker.change(activate_claim, call("activate_claim"), uuid)
        claim.state = "active"

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data(), verb=st.sampled_from(["abort_instance_claim", "release_claim", "delete"]))
    def end(self, data, verb):
        self.end_claim(self.any_claim(data), verb)

    @precondition(lambda self: self.claim_uuids("attach"))
    @rule(data=st.data(), verb=st.sampled_from(["abort_instance_claim", "release_claim"]))
    def end_claim_with_attached_devices(self, data, verb):
        attached = data.draw(st.sampled_from(self.claim_uuids("attach")))
        (main,) = self.model.claims_of(self.model.claims[attached].owner, "build")
        self.end_claim(main, verb)

    def end_claim(self, uuid, verb):
        before = self.model.claimed()
        ends = [uuid]
        if verb == "delete":
            owner = self.model.claims[uuid].owner
            ends = list(self.model.claims_of(owner))
            update = InstanceUpdate(uuid=owner, vm_state="deleted")
            self.tracker.execute(update_usage, call("update_usage"), update)
        else:
            self.tracker.execute(getattr(claims, verb), call(verb), uuid)
        self.model.end(ends)
        self.model.quarantine_released(before)

    @precondition(lambda self: self.claim_uuids("attach"))
    @rule(data=st.data(), verb=st.sampled_from(["unclaim", "free"]))
    def detach(self, data, verb):
        """End the attach claims of a guest: those not yet activated, or the active ones."""
        attached = data.draw(st.sampled_from(self.claim_uuids("attach")))
        owner = self.model.claims[attached].owner
        state = {"unclaim": "building", "free": "active"}[verb]
        before = self.model.claimed()
        self.tracker.execute(end_pci_claims, call(verb), owner, None, verb)
        claims = self.model.claims_of(owner, "attach")
        self.model.end(uuid for uuid, claim in claims.items() if claim.state == state)
        self.model.quarantine_released(before)

    @precondition(lambda self: self.claim_uuids("attach"))
    @rule(data=st.data(), named=st.booleans())
    def detach_some(self, data, named):
        """End some devices of an attach claim; it ends with its last one."""
        uuid = data.draw(st.sampled_from(self.claim_uuids("attach")))
        claim = self.model.claims[uuid]
        verb = {"building": "unclaim", "active": "free"}[claim.state]
        given = data.draw(st.sets(st.sampled_from(sorted(claim.devices)), min_size=1))
        before = self.model.claimed()
        self.tracker.execute(
            end_pci_claims, call(verb), claim.owner, uuid if named else None, verb, given
        )
        claim.devices -= given
        if not claim.devices:
            self.model.end([uuid])
        self.model.quarantine_released(before)

    def with_devices(self):
        return sorted(uuid for uuid, claim in self.model.claims.items() if claim.devices)

    @precondition(lambda self: self.with_devices())
    @rule(data=st.data(), named=st.booleans())
    def give_back(self, data, named):
        """Give back some devices of any claim; an attach claim ends with its last one."""
        uuid = data.draw(st.sampled_from(self.with_devices()))
        claim = self.model.claims[uuid]
        given = data.draw(st.sets(st.sampled_from(sorted(claim.devices)), min_size=1))
        before = self.model.claimed()
        asked = call("give_back_devices")
        self.tracker.execute(give_back_devices, asked, claim.owner, given, uuid if named else None)
        claim.devices -= given
        if claim.kind == "attach" and not claim.devices:
            self.model.end([uuid])
        self.model.quarantine_released(before)

    @precondition(lambda self: self.model.devices)
    @rule(data=st.data(), reason=st.sampled_from(["for the operator", None, None]))
    def quarantine_or_clear(self, data, reason):
        address = data.draw(st.sampled_from(sorted(self.model.devices)))
        self.tracker.execute(quarantine, call("quarantine"), address, reason)
        self.model.devices[address].quarantined = reason is not None

    # --- domains and hardware ---

    def idle(self, address, but=None):
        """Whether a domain can start with the device now, whatever the claims are."""
        running = [d for u, d in self.world.domains.items() if d.active and u != but]
        busy = {a for domain in running for a in domain.occupancy.devices}
        parents = {m.parent_addr for m in self.world.mdevs.values()}
        related = {address} | functions(address) | group(address)
        return address in self.world.devices and not related & busy and address not in parents

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data())
    def start_guest(self, data):
        """Start a guest with all its claimed devices, if the host allows it."""
        owner = self.model.claims[self.any_claim(data)].owner
        claims = self.model.claims_of(owner).values()
        devices = frozenset(address for claim in claims for address in claim.devices)
        identifiers = [name for claim in claims for name in claim.resources if "/" in name]
        if all(self.idle(address, owner) for address in devices):
            uuids = [
                self.create_mdev(mdev_uuid(name), name.partition("/")[0]) for name in identifiers
            ]
            if all(uuids):
                names = {name for claim in claims for name in claim.resources} & {*NAMESPACES}
                self.start_domain(owner, devices, uuids, names)

    @rule(
        owner=st.sampled_from(OWNERS + FOREIGN),
        addresses=st.lists(st.sampled_from(ADDRESSES), max_size=2, unique=True),
        data=st.data(),
    )
    def start_domain_with_any_devices(self, owner, addresses, data):
        chosen: set[str] = set()
        for address in addresses:
            if self.idle(address, owner) and not functions(address) & chosen:
                chosen.add(address)
        busy = {u for d in self.world.domains.values() if d.active for u in d.occupancy.mdevs}
        free = sorted(self.world.mdevs.keys() - busy)
        mdevs = data.draw(st.lists(st.sampled_from(free), max_size=1)) if free else []
        running = [d for u, d in self.world.domains.items() if d.active and u != owner]
        used = {name for domain in running for name in domain.occupancy.namespaces}
        names = data.draw(st.sets(st.sampled_from(NAMESPACES), max_size=1)) - used
        self.start_domain(owner, chosen, mdevs, names)

    def start_domain(self, owner, devices, mdevs, namespaces):
        occupancy = Occupancy(
            devices=frozenset(devices), mdevs=frozenset(mdevs), namespaces=frozenset(namespaces)
        )
        self.world.start_domain(owner, 1, 64, occupancy=occupancy)

    @precondition(lambda self: self.world.domains)
    @rule(data=st.data(), stays_defined=st.booleans())
    def stop_domain(self, data, stays_defined):
        owner = data.draw(st.sampled_from(sorted(self.world.domains)))
        (self.world.shut_off if stays_defined else self.world.destroy)(owner)

    @rule(data=st.data())
    def create_or_destroy_mdev(self, data):
        uuid = data.draw(st.sampled_from([None, *sorted(self.world.mdevs)]))
        if uuid is None:
            self.create_mdev(uid(), data.draw(st.sampled_from(CARDS)))
        elif not any(uuid in d.occupancy.mdevs for d in self.world.domains.values() if d.active):
            address = self.world.mdevs[uuid].parent_addr
            self.world.destroy_mdev(uuid)
            existing = [m for m in self.world.mdevs.values() if m.parent_addr == address]
            self.world.plug(card(address, MDEVS_PER_CARD - len(existing)))

    def create_mdev(self, uuid, address):
        """Return the uuid, or None if the card cannot create the mediated device."""
        busy = {a for d in self.world.domains.values() if d.active for a in d.occupancy.devices}
        existing = [m for m in self.world.mdevs.values() if m.parent_addr == address]
        if uuid not in self.world.mdevs:
            full = len(existing) == MDEVS_PER_CARD
            if address not in self.world.devices or full or address in busy:
                return None
            self.world.create_mdev(uuid, VGPU_TYPE, address)
            self.world.plug(card(address, MDEVS_PER_CARD - len(existing) - 1))
        return uuid

    @rule(
        address=st.sampled_from([a for a in ADDRESSES if a not in CARDS]),
        what=st.sampled_from(["absent", "present", "replaced"]),
    )
    def plug(self, address, what):
        """Plug or unplug a device, in use or not.

        A card's virtual functions leave with it. A replacement has a product that no request asks
        for.
        """
        device = HARDWARE[address]
        if what == "absent":
            unplugged = {address} | {
                a for a in functions(address) if HARDWARE[a].parent_addr == address
            }
            self.world.unplug(*(unplugged & self.world.devices.keys()))
        elif device.parent_addr is None or device.parent_addr in self.world.devices:
            replaced = what == "replaced" and not functions(address)
            self.world.plug(replace(device, product_id="ffff") if replaced else device)

    @rule(name=st.sampled_from(NAMESPACES))
    def create_or_destroy_namespace(self, name):
        if self.world.namespaces.pop(name, None) is None:
            self.world.namespaces[name] = HOST_NAMESPACES[name]

    # --- the operator ---

    @rule(
        name=st.sampled_from([*sorted(PRODUCTS), "vgpus", "namespaces"]),
        one_time=st.booleans(),
        number=st.integers(0, 2),
    )
    def change_options(self, name, one_time, number):
        """Add or remove specifications, change their tags, or change assigned resources."""
        if name == "vgpus":
            self.vgpus = not self.vgpus
        elif name == "namespaces":
            self.namespaces = NAMESPACES[:number]
        elif one_time and name != "vf":  # virtual functions do not allow the tag
            self.one_time ^= {name}
        else:
            self.listed ^= {name}
        self.tracker.set_policy(self.policy())

    # --- time and audits ---

    @rule(seconds=st.sampled_from([1, LEASE + 1]))
    def advance_time(self, seconds):
        self.clock.advance(seconds)

    @rule()
    def restart(self):
        self.tracker, self.complete, self.all_listed = self.start(), True, True
        for claim in self.model.claims.values():
            claim.lapses = self.clock.monotonic() + LEASE

    @rule(
        listed=st.sampled_from([True, True, False]), complete=st.sampled_from([True, True, False])
    )
    def audit(self, listed, complete):
        self.run_audit(listed, complete)

    def run_audit(self, listed=True, complete=True):
        self.world.unlisted, self.world.incomplete = not listed, not complete
        self.all_listed, self.complete = listed, complete
        assert Auditor(self.tracker, self.world, self.clock).run("test").skipped == 0
        before = self.model.claimed() | self.model.used()
        self.audit_claims(complete)
        self.audit_domains(complete)
        running = [d for d in self.world.domains.values() if d.active]
        self.model.namespaces = tuple(
            n for n in self.namespaces if n in (self.world.namespaces or ())
        )
        if listed:
            used = before.union(*(domain.occupancy.devices for domain in running))
            self.audit_devices(used)
            self.audit_mdevs()
        self.model.quarantine_released(before)

    def audit_claims(self, complete):
        now, lapsed = self.clock.monotonic(), []
        for uuid, claim in self.model.claims.items():
            domain = self.world.domains.get(claim.owner)
            started = domain is not None and (
                claim.kind == "build" or claim.devices <= domain.occupancy.devices
            )
            if claim.state == "building" and started:
                claim.state = "active"
            elif claim.state == "building" and complete and claim.lapses <= now:
                lapsed.append(uuid)
        self.model.end(lapsed)

    def audit_domains(self, complete):
        for owner in list(self.model.foreign):
            if owner not in self.world.domains and complete:
                del self.model.foreign[owner]
        for owner, domain in self.world.domains.items():
            used = domain.occupancy
            claims = self.model.claims_of(owner).values()
            required = {
                a for c in claims if c.kind == "build" or c.state == "active" for a in c.devices
            }
            allowed = {a for claim in claims for a in claim.devices}
            mdevs = {mdev_uuid(name) for c in claims for name in c.resources if "/" in name}
            names = {name for c in claims for name in c.resources} & {*NAMESPACES}
            same = used.mdevs == mdevs and used.namespaces == names
            agrees = required <= used.devices <= allowed and same
            if not domain.active or (self.model.claims_of(owner, "build") and agrees):
                self.model.foreign[owner] = ModelUsage()
            else:
                known = frozenset(IDENTIFIERS[uuid] for uuid in used.mdevs if uuid in IDENTIFIERS)
                existing = [m for m in self.world.mdevs.values() if m.uuid in used.mdevs]
                parents = frozenset(mdev.parent_addr for mdev in existing)
                resources = known | used.namespaces
                self.model.foreign[owner] = ModelUsage(used.devices, resources, parents)

    def audit_devices(self, used):
        devices = {}
        for address, device in self.world.devices.items():
            name = NAMES.get(device.product_id)
            if name in self.listed:
                one_time = name in self.one_time
                devices[address] = ModelDevice(device.product_id, one_time_use=one_time)
            elif address in used:
                devices[address] = ModelDevice(device.product_id, listed=False)
        for address, old in self.model.devices.items():
            if address not in used and not old.quarantined:
                continue
            new, present = devices.get(address), self.world.devices.get(address)
            if present is None or present.product_id != old.product:
                old.present = False
            elif new is None or not new.listed:
                old.present, old.listed = True, False
            else:
                new.quarantined = old.quarantined
                continue
            devices[address] = old
        self.model.devices = devices

    def audit_mdevs(self):
        self.model.mdevs = {}
        for address in CARDS:
            others = [
                m
                for m in self.world.mdevs.values()
                if m.parent_addr == address and m.uuid not in IDENTIFIERS
            ]
            if self.vgpus:
                self.model.mdevs[address] = MDEVS_PER_CARD - len(others)

    # --- invariants ---

    @invariant()
    def claims_are_as_answered(self):
        state = self.tracker.snapshot()
        state.check()
        actual = {
            uuid: (
                claim.owner_id,
                claim.kind,
                claim.state,
                frozenset(device.address for device in claim.pci),
                frozenset(resource.identifier for resource in claim.resources),
            )
            for uuid, claim in state.claims.items()
        }
        assert actual == {
            uuid: (claim.owner, claim.kind, claim.state, claim.devices, claim.resources)
            for uuid, claim in self.model.claims.items()
        }

    @invariant()
    def claimed_devices_and_resources_have_one_owner(self):
        claims = list(self.model.claims.values())
        claimed = Counter(address for claim in claims for address in claim.devices)
        claimed += Counter(name for claim in claims for name in claim.resources)
        assert not claimed or max(claimed.values()) == 1
        for claim in claims:
            for address in claim.devices:
                assert not functions(address) & self.model.claimed()
                for other in claims:
                    assert other.owner == claim.owner or not group(address) & other.devices

    @invariant()
    def record_is_as_last_seen_and_has_all_claimed_devices(self):
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
        } == {address: each.fields for address, each in self.model.devices.items()}
        assert self.model.claimed() <= set(devices)

    @invariant()
    def pools_count_the_available_devices(self):
        pools: Counter = Counter()
        for pool in pci_device_pools(self.tracker.snapshot()):
            pools[pool["product_id"], pool["numa_node"]] += pool["count"]
        assert pools == self.model.available_counts()

    @invariant()
    def kept_views_equal_views_made_anew(self):
        check_views(self.tracker.snapshot())

    @invariant()
    def rows_show_states_and_owners(self):
        allocations = device_allocations(self.tracker.snapshot())
        for address, row in self.store.rows.items():
            state = allocations.state(address)
            assert (row.status, row.instance_uuid) == (state.state, state.owner_id)
            owners = self.model.owners_of(address) | self.model.owners_of_mdevs(address)
            assert (row.instance_uuid in owners) if owners else row.instance_uuid is None
        assert self.store.rows.keys() == set(self.tracker.snapshot().devices)

    @invariant()
    def rows_are_those_of_the_state(self):
        state = self.tracker.snapshot()
        everything = Change(
            cause="test",
            at=self.clock.now(),
            puts=tuple(state.claims.values()),
            devices=tuple(state.devices.values()),
            domain_usages=tuple(state.domain_usages.values()),
        )
        assert self.store.rows == {
            row.address: row for row in net_devices(host(), state, [everything]).new
        }

    @invariant()
    def restart_restores_the_same_state(self):
        state = self.tracker.snapshot()
        again = restore(self.store.load(NODE.uuid), state.policy)
        for name in (
            *("claims", "domain_usages", "units", "devices", "usage", "counters", "revision"),
            "resource_inventories",
        ):
            assert getattr(again, name) == getattr(state, name), name


# Few and long examples: the state becomes interesting only after some steps.
DevicesMachine.TestCase.settings = settings(
    stateful_step_count=150, max_examples=settings.default.max_examples // 5
)
TestDevices = DevicesMachine.TestCase
