"""Any order of claims, releases, plugging, and changes of what is offered: what is held is held by
one owner, is never lost, and all else is counted as it is.

The book knows nothing of the product's states: it has the claims, and who uses what without one.
"""

from __future__ import annotations

import json
from collections import Counter

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from rtagent.model.device import PciDevice
from rtagent.model.pci_devices import PciDevices
from rtagent.pci.fit import DeviceFit, Fitted
from rtagent.pci.pools import pools
from rtagent.pci.record import USED, refresh, released
from rtagent.pci.spec import parse_specs
from rtagent.pci.states import ALLOCATED, AVAILABLE, CLAIMED, Hold, Holdings
from tests.pci_hosts import GPU_0, GPU_1, GPU_IDS, PF_0, PF_1, PF_IDS, VF_IDS, asked, gpu, nic

HARDWARE = [
    gpu(GPU_0, 0, iommu_group=1),
    gpu(GPU_1, 1, iommu_group=2),
    gpu("0000:89:00.0", 1, iommu_group=2),
    *nic(PF_0, 3, 0),
    *nic(PF_1, 1, 1),
]
ADDRESSES = [device.address for device in HARDWARE]
OFFERS = {
    "gpus": json.dumps(GPU_IDS),
    "gpus for one use": json.dumps({**GPU_IDS, "one_time_use": "yes"}),
    "cards": json.dumps(PF_IDS),
    "functions": json.dumps({**VF_IDS, "physical_network": "net"}),
}
OWNERS = ["a", "b", "c"]
ASKED = ["gpu:1", "gpu:2", "vf:1", "vf:2", "pf:1", "pf:1,vf:1", "gpu:1,vf:1", "pf:2"]


class DevicesMachine(RuleBasedStateMachine):
    """``claims``: [owner, allocated, devices] of each. ``foreign``: address to owner."""

    def __init__(self):
        super().__init__()
        self.there = {device.address: device for device in HARDWARE}
        self.offered = ["gpus", "cards", "functions"]
        self.record: dict[str, PciDevice] = {}
        self.claims: list = []
        self.foreign: dict[str, str] = {}
        self.used: set[str] = set()
        self.look()

    # -- the book's own words --

    def owners_of(self, address):
        owners = {c[0] for c in self.claims if address in [d.address for d in c[2]]}
        return owners | ({self.foreign[address]} if address in self.foreign else set())

    def claimed(self):
        return {device.address for claim in self.claims for device in claim[2]}

    def held(self):
        return self.claimed() | set(self.foreign)

    def kin(self, address):
        parent = {d.address: d.parent_addr for d in HARDWARE}
        return {a for a in ADDRESSES if parent[a] == address or a == parent[address]}

    def group(self, address):
        groups = {d.address: d.iommu_group for d in HARDWARE}
        return {a for a in ADDRESSES if groups[a] and groups[a] == groups[address]} - {address}

    def may_have(self, address, owner=None):
        """Whether nothing speaks against giving it away."""
        return (
            address in self.there
            and self.is_offered(address)
            and address not in self.used
            and not self.owners_of(address)
            and not any(self.owners_of(other) for other in self.kin(address))
            and not any(self.owners_of(other) - {owner} for other in self.group(address))
        )

    def is_offered(self, address):
        kind = {"13f1": "gpus", "1583": "cards", "154c": "functions"}[
            next(d.product_id for d in HARDWARE if d.address == address)
        ]
        return kind in self.offered or (kind == "gpus" and "gpus for one use" in self.offered)

    def holdings(self):
        holds = [
            Hold(address=device.address, owner_id=owner, allocated=allocated)
            for owner, allocated, devices in self.claims
            for device in devices
        ]
        holds += [Hold(address=a, owner_id=o, allocated=True) for a, o in self.foreign.items()]
        return Holdings(PciDevices(self.record), holds)

    # -- what happens --

    @rule(owner=st.sampled_from(OWNERS), aliases=st.sampled_from(ASKED))
    def claim(self, owner, aliases):
        fit = DeviceFit(asked(aliases), self.holdings(), owner, where="cn1").fit()
        if not isinstance(fit, Fitted):
            return
        assert all(self.may_have(device.address, owner) for device in fit.devices)
        self.claims.append([owner, False, fit.devices])

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), aliases=st.sampled_from(ASKED))
    def move_here(self, data, aliases):
        """A second claim of the owner, which may share what the first holds."""
        owner, _, devices = data.draw(st.sampled_from(self.claims))
        offered = {device.address: device.purpose for device in devices}
        fit = DeviceFit(asked(aliases), self.holdings(), owner, where="cn1", offered=offered).fit()
        if isinstance(fit, Fitted):
            for device in fit.devices:
                assert device.address in offered or self.may_have(device.address, owner)
            self.claims.append([owner, False, fit.devices])

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def allocate(self, data):
        data.draw(st.sampled_from(self.claims))[1] = True

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def free(self, data):
        number = data.draw(st.integers(0, len(self.claims) - 1))
        _, _, devices = self.claims.pop(number)
        self.let_go(device.address for device in devices)

    @rule(address=st.sampled_from(ADDRESSES), owner=st.sampled_from(["x", "a"]))
    def a_foreign_domain_starts(self, address, owner):
        # Physically it can have what nobody else's guest uses.
        if address in self.there and not self.owners_of(address):
            self.foreign[address] = owner
            self.look()

    @precondition(lambda self: self.foreign)
    @rule(data=st.data())
    def a_foreign_domain_ends(self, data):
        address = data.draw(st.sampled_from(sorted(self.foreign)))
        del self.foreign[address]
        self.let_go([address])

    @rule(address=st.sampled_from(ADDRESSES))
    def unplug(self, address):
        self.there.pop(address, None)
        self.look()

    @rule(address=st.sampled_from(ADDRESSES))
    def replug(self, address):
        self.there[address] = next(d for d in HARDWARE if d.address == address)
        self.look()

    @rule(kind=st.sampled_from(sorted(OFFERS)))
    def the_operator_changes_his_mind(self, kind):
        if kind in self.offered:
            self.offered.remove(kind)
        elif not (kind.startswith("gpus") and {"gpus", "gpus for one use"} & set(self.offered)):
            self.offered.append(kind)
        self.look()

    @precondition(lambda self: self.used)
    @rule(data=st.data())
    def the_operator_clears(self, data):
        address = data.draw(st.sampled_from(sorted(self.used)))
        self.used.remove(address)
        self.record[address] = replace(self.record[address], quarantine=None)
        self.look()

    @rule()
    def restart(self):
        """All that is known is what was written."""
        written = {a: msgspec.json.encode(each) for a, each in self.record.items()}
        self.record = {a: msgspec.json.decode(e, type=PciDevice) for a, e in written.items()}
        self.look()

    def let_go(self, addresses):
        ended = [address for address in addresses if not self.owners_of(address)]
        changes = released(self.record, ended)
        self.record.update({each.address: each for each in changes})
        self.used |= {each.address for each in changes}
        self.look()

    def look(self):
        specs = parse_specs([OFFERS[kind] for kind in self.offered])
        change = refresh(self.record, self.there.values(), specs, self.held())
        for address in change.removals:
            del self.record[address]
        self.record.update({each.address: each for each in change.puts})

    # -- what always holds --

    @invariant()
    def no_device_has_two_owners(self):
        for address in self.claimed():
            assert len({c[0] for c in self.claims if address in [d.address for d in c[2]]}) == 1

    @invariant()
    def no_virtual_function_is_held_with_its_physical_one(self):
        for address in self.claimed():
            assert not self.kin(address) & self.claimed()

    @invariant()
    def a_group_has_one_owner(self):
        for address in self.claimed():
            owners = {c[0] for c in self.claims for d in c[2] if d.address in self.group(address)}
            mine = {c[0] for c in self.claims for d in c[2] if d.address == address}
            assert owners <= mine

    @invariant()
    def nothing_that_is_held_is_lost(self):
        holdings = self.holdings()
        for address in self.held():
            state = holdings.state(address)
            assert state.state in (CLAIMED, ALLOCATED)
            assert state.owner_id in self.owners_of(address)
            assert state.device.present is (address in self.there)
            assert state.device.listed is self.is_offered(address) or not state.device.present

    @invariant()
    def what_is_used_up_stays_back(self):
        assert self.used == {a for a, each in self.record.items() if each.quarantine == USED}

    @invariant()
    def pools_count_the_devices(self):
        holdings = self.holdings()
        counted = Counter(
            address for pool in pools(holdings.available()) for address in pool.addresses
        )
        free = {address for address in ADDRESSES if self.may_have(address)}
        assert counted == Counter(free)
        states = {address for address in self.record if holdings.state(address).state == AVAILABLE}
        assert states == free


DevicesMachine.TestCase.settings = settings(stateful_step_count=40, deadline=None)
test_devices = DevicesMachine.TestCase
