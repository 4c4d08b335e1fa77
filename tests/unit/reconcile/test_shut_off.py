"""Adoption of domains that are shut off."""

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.errors import DomainNotAdoptable
from rtagent.model.change import Change
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.model.guest import GuestLayout
from rtagent.model.node_state import NodeState
from rtagent.model.policy import PciPolicy
from rtagent.reconcile.adoption import adopt
from rtagent.reconcile.drift import absent, drifts, orphans
from tests.support.claims import (
    domain_document,
    hostdev,
    layout,
    metadata,
    pinned_parts,
    with_orphans,
)
from tests.support.hosts import NOON, PINNING, TOPOLOGY, call, host, request, uid
from tests.support.pci_hosts import ALIASES, GPU_0, SPECS, two_gpus_and_a_nic

OFF, RUNNING = uid(77), uid(78)


def state() -> NodeState:
    made = host(numa=PINNING, pci=PciPolicy(specs=SPECS, aliases=ALIASES))
    return replace(made, devices=type(made.devices)(two_gpus_and_a_nic()))


def read(*parts: str, uuid: str = OFF, active: bool = False, **sizes) -> GuestLayout:
    devices = sizes.pop("devices", "")
    document = domain_document(
        uuid, sizes.get("vcpus", 2), sizes.get("memory_mb", 1024), *parts, devices=devices
    )
    return layout(document, uuid, TOPOLOGY.cpus, active=active)


def adopted(before: NodeState, found: GuestLayout):
    granted = adopt(before, call("adopt_domain"), NOON, OFF, found, None, shut_off=True)
    after = before.fold(granted.change)
    after.check()
    return after, granted.claims[0]


def test_its_claim_keeps_what_it_needs_to_start():
    found = read(pinned_parts(1, [4, 5], 1024, 2048), metadata(), devices=hostdev(GPU_0))
    before = with_orphans(state(), found)
    after, claim = adopted(before, found)
    assert (claim.state, claim.instance.vm_state) == ("active", "stopped")
    assert ([each.address for each in claim.pci], claim.pcpus) == ([GPU_0], 2)
    assert after.usage.memory_mb == before.usage.memory_mb + 1024
    assert after.usage.numa.pinned.keys() == {4, 5}
    assert not [*orphans(after), *drifts(after), *absent(after)]


@pytest.mark.parametrize("parts", [
    pytest.param({"parts": [pinned_parts(1, [4, 5], 1024)]}, id="pins"),
    pytest.param({"devices": hostdev(GPU_0)}, id="device"),
])  # fmt: skip
def test_what_a_running_domain_uses_is_not_taken_from_it(parts):
    elements = parts.pop("parts", [])
    off = read(*elements, **parts)
    before = with_orphans(state(), off, read(*elements, uuid=RUNNING, active=True, **parts))
    with pytest.raises(DomainNotAdoptable, match="it is shut off, and others use what it needs"):
        adopted(before, off)


def test_what_may_be_in_use_by_a_running_domain_is_not_taken_from_it():
    off = read(pinned_parts(1, [4, 5], 1024))
    before = with_orphans(state(), off, read(uuid=RUNNING, active=True))
    usage = before.domain_usages[RUNNING]
    usage = replace(usage, occupancy=Occupancy(unknown=frozenset({HostResource.CPUS})))
    before = before.fold(Change(cause="audit", at=NOON, domain_usages=(usage,)))
    with pytest.raises(DomainNotAdoptable, match=f"by domain {RUNNING} .* is unknown"):
        adopted(before, off)


def test_what_a_claim_has_is_not_taken_from_it():
    off = read(devices=hostdev(GPU_0), vcpus=1)
    before = with_orphans(state(), off)
    specs = {"pci_passthrough:alias": "gpu:2"}
    granted = claims.instance_claim(before, call(), NOON, request(extra_specs=specs))
    with pytest.raises(DomainNotAdoptable, match=f"PCI device {GPU_0}, which"):
        adopted(before.fold(granted.change), off)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(read(memory_mb=10**7), "MEMORY_MB", id="memory"),
        pytest.param(
            read(pinned_parts(0, [2], 10**6, 2048), vcpus=1, memory_mb=1024),
            "pages of 2048 KiB at cell 0",
            id="pages",
        ),
    ],
)
def test_a_host_that_has_too_little_does_not_adopt_it(found, reason):
    with pytest.raises(DomainNotAdoptable, match=reason):
        adopted(with_orphans(state(), found), found)


def test_without_leave_it_stays_an_orphan():
    off = read()
    before = with_orphans(state(), off)
    with pytest.raises(DomainNotAdoptable, match="--shut-off"):
        adopt(before, call(), NOON, OFF, off, None)
