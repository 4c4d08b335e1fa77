"""Any order of claims, releases, hot-plug and changes of ``device_spec``: a device in use has one
owner and stays recorded, and pools count all available devices.

The model does not use the product's states. It has the claims, and the devices that foreign domains
use.
"""

from __future__ import annotations

import json
from collections import Counter

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from rtagent.model.device import PciDevice, PciDevices
from rtagent.pci.allocations import DeviceAllocations
from rtagent.pci.device_users import ALLOCATED, AVAILABLE, CLAIMED, DeviceAllocation
from rtagent.pci.fit import DeviceFit, FittedDevices
from rtagent.pci.inventory import USED_ONCE, quarantine_used, refresh
from rtagent.pci.specs import parse_specs
from tests.support.pci_hosts import (
    GPU_0,
    GPU_1,
    GPU_IDS,
    PF_0,
    PF_1,
    PF_IDS,
    VF_IDS,
    gpu,
    nic,
    requests_for,
)

HARDWARE = [
    gpu(GPU_0, 0, iommu_group=1),
    gpu(GPU_1, 1, iommu_group=2),
    gpu("0000:89:00.0", 1, iommu_group=2),
    *nic(PF_0, 3, 0),
    *nic(PF_1, 1, 1),
]
ADDRESSES = [device.address for device in HARDWARE]
SPECS = {
    "gpus": json.dumps(GPU_IDS),
    "one-time gpus": json.dumps({**GPU_IDS, "one_time_use": "yes"}),
    "cards": json.dumps(PF_IDS),
    "functions": json.dumps({**VF_IDS, "physical_network": "net"}),
}
OWNERS = ["a", "b", "c"]
ALIASES = ["gpu:1", "gpu:2", "vf:1", "vf:2", "pf:1", "pf:1,vf:1", "gpu:1,vf:1", "pf:2"]


class DevicesMachine(RuleBasedStateMachine):
    """The model: ``claims`` has [owner, allocated, devices] of each claim, ``foreign`` the owners
    of devices that are used without a claim, ``quarantined`` addresses."""

    def __init__(self):
        super().__init__()
        self.present = {device.address: device for device in HARDWARE}
        self.specs = ["gpus", "cards", "functions"]
        self.record: dict[str, PciDevice] = {}
        self.claims: list = []
        self.foreign: dict[str, str] = {}
        self.quarantined: set[str] = set()
        self.refresh()

    # --- the model ---

    def owners_of(self, address):
        owners = {c[0] for c in self.claims if address in [d.address for d in c[2]]}
        return owners | ({self.foreign[address]} if address in self.foreign else set())

    def claimed(self):
        return {device.address for claim in self.claims for device in claim[2]}

    def used(self):
        return self.claimed() | set(self.foreign)

    def functions(self, address):
        """Return the physical or virtual functions of a device."""
        parent = {d.address: d.parent_addr for d in HARDWARE}
        return {a for a in ADDRESSES if parent[a] == address or a == parent[address]}

    def group(self, address):
        """Return the other members of its IOMMU group."""
        groups = {d.address: d.iommu_group for d in HARDWARE}
        return {a for a in ADDRESSES if groups[a] and groups[a] == groups[address]} - {address}

    def available(self, address, owner=None):
        return (
            address in self.present
            and self.is_listed(address)
            and address not in self.quarantined
            and not self.owners_of(address)
            and not any(self.owners_of(other) for other in self.functions(address))
            and not any(self.owners_of(other) - {owner} for other in self.group(address))
        )

    def is_listed(self, address):
        kind = {"13f1": "gpus", "1583": "cards", "154c": "functions"}[
            next(d.product_id for d in HARDWARE if d.address == address)
        ]
        return kind in self.specs or (kind == "gpus" and "one-time gpus" in self.specs)

    def device_allocations(self):
        allocations = [
            DeviceAllocation(address=device.address, owner_id=owner, allocated=allocated)
            for owner, allocated, devices in self.claims
            for device in devices
        ]
        allocations += [
            DeviceAllocation(address=a, owner_id=o, allocated=True) for a, o in self.foreign.items()
        ]
        return DeviceAllocations(PciDevices(self.record), allocations)

    # --- rules ---

    @rule(owner=st.sampled_from(OWNERS), aliases=st.sampled_from(ALIASES))
    def claim(self, owner, aliases):
        requests = requests_for(aliases)
        result = DeviceFit(requests, self.device_allocations(), owner, where="cn1").fit()
        if not isinstance(result, FittedDevices):
            return
        assert all(self.available(device.address, owner) for device in result.devices)
        self.claims.append([owner, False, result.devices])

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), aliases=st.sampled_from(ALIASES))
    def claim_for_move_on_one_host(self, data, aliases):
        """Make a second claim of the owner, which may reuse the devices of the first."""
        owner, _, devices = data.draw(st.sampled_from(self.claims))
        reusable = {device.address: device.purpose for device in devices}
        allocations = self.device_allocations()
        result = DeviceFit(
            requests_for(aliases), allocations, owner, where="cn1", reusable=reusable
        ).fit()
        if isinstance(result, FittedDevices):
            for device in result.devices:
                assert device.address in reusable or self.available(device.address, owner)
            self.claims.append([owner, False, result.devices])

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def allocate(self, data):
        data.draw(st.sampled_from(self.claims))[1] = True

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def free(self, data):
        number = data.draw(st.integers(0, len(self.claims) - 1))
        _, _, devices = self.claims.pop(number)
        self.release(device.address for device in devices)

    @rule(address=st.sampled_from(ADDRESSES), owner=st.sampled_from(["x", "a"]))
    def start_foreign_domain(self, address, owner):
        # A domain can only start with a device that no other guest uses.
        if address in self.present and not self.owners_of(address):
            self.foreign[address] = owner
            self.refresh()

    @precondition(lambda self: self.foreign)
    @rule(data=st.data())
    def stop_foreign_domain(self, data):
        address = data.draw(st.sampled_from(sorted(self.foreign)))
        del self.foreign[address]
        self.release([address])

    @rule(address=st.sampled_from(ADDRESSES))
    def unplug(self, address):
        self.present.pop(address, None)
        self.refresh()

    @rule(address=st.sampled_from(ADDRESSES))
    def plug(self, address):
        self.present[address] = next(d for d in HARDWARE if d.address == address)
        self.refresh()

    @rule(spec=st.sampled_from(sorted(SPECS)))
    def change_device_spec(self, spec):
        if spec in self.specs:
            self.specs.remove(spec)
        elif not ("gpus" in spec and {"gpus", "one-time gpus"} & set(self.specs)):
            self.specs.append(spec)
        self.refresh()

    @precondition(lambda self: self.quarantined)
    @rule(data=st.data())
    def clear_quarantine(self, data):
        address = data.draw(st.sampled_from(sorted(self.quarantined)))
        self.quarantined.remove(address)
        self.record[address] = replace(self.record[address], quarantine=None)
        self.refresh()

    @rule()
    def restart(self):
        """Keep only what was written."""
        written = {a: msgspec.json.encode(each) for a, each in self.record.items()}
        self.record = {a: msgspec.json.decode(e, type=PciDevice) for a, e in written.items()}
        self.refresh()

    def release(self, addresses):
        released = [address for address in addresses if not self.owners_of(address)]
        changes = quarantine_used(self.record, released)
        self.record.update({each.address: each for each in changes})
        self.quarantined |= {each.address for each in changes}
        self.refresh()

    def refresh(self):
        specs = parse_specs([SPECS[name] for name in self.specs])
        change = refresh(self.record, self.present.values(), specs, self.used())
        for address in change.removals:
            del self.record[address]
        self.record.update({each.address: each for each in change.puts})

    # --- invariants ---

    @invariant()
    def claimed_devices_have_one_owner(self):
        for address in self.claimed():
            assert len({c[0] for c in self.claims if address in [d.address for d in c[2]]}) == 1

    @invariant()
    def virtual_functions_are_never_claimed_with_their_physical_function(self):
        for address in self.claimed():
            assert not self.functions(address) & self.claimed()

    @invariant()
    def iommu_groups_have_one_owner(self):
        for address in self.claimed():
            owners = {c[0] for c in self.claims for d in c[2] if d.address in self.group(address)}
            own = {c[0] for c in self.claims for d in c[2] if d.address == address}
            assert owners <= own

    @invariant()
    def devices_in_use_stay_recorded(self):
        allocations = self.device_allocations()
        for address in self.used():
            state = allocations.state(address)
            assert state.state in (CLAIMED, ALLOCATED)
            assert state.owner_id in self.owners_of(address)
            assert state.device.present is (address in self.present)
            assert state.device.listed is self.is_listed(address) or not state.device.present

    @invariant()
    def used_one_time_devices_are_quarantined(self):
        assert self.quarantined == {
            address for address, each in self.record.items() if each.quarantine == USED_ONCE
        }

    @invariant()
    def pools_count_the_available_devices(self):
        allocations = self.device_allocations()
        counted = Counter(address for pool in allocations.pools() for address in pool.addresses)
        available = {address for address in ADDRESSES if self.available(address)}
        assert counted == Counter(available)
        states = {
            address for address in self.record if allocations.state(address).state == AVAILABLE
        }
        assert states == available


DevicesMachine.TestCase.settings = settings(stateful_step_count=40, deadline=None)
test_devices = DevicesMachine.TestCase
