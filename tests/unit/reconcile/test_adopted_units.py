"""Units of adopted domains: mediated devices that others have made, under uuids of their own."""

import pytest
from msgspec.structs import replace

from rtagent.errors import DomainNotAdoptable
from rtagent.lifecycle.moves.steps import claimed_usage
from rtagent.model.device import Mdev
from rtagent.model.domain_usage import Occupancy
from rtagent.model.guest import GuestCell, GuestLayout
from rtagent.model.node_state import NodeState
from rtagent.pci.mdev import mdev_uuid
from rtagent.reconcile.adoption import adopt
from rtagent.reconcile.drift import absent, drifts, orphans
from rtagent.reconcile.plan import apply, plan
from rtagent.virt.libvirt import guest
from tests.support.device_states import (
    VGPU_TYPE,
    after,
    audited,
    built,
    device_host,
    domain,
    policy,
    refusal,
    released,
    seen,
)
from tests.support.hosts import NODE, NOON, call, domain_usage, request, uid
from tests.support.pci_hosts import GPU_0, gpu

OWNER, RANDOM = uid(77), "4b20d080-1b54-4048-85b3-a6a62d165c01"
THEIRS = Mdev(uuid=RANDOM, type="nvidia-11", parent_addr=GPU_0)


def look(state: NodeState, *, active: bool = True, available: int = 3, mdevs=(THEIRS,)):
    # libvirt reports of a domain that is shut off that it is bound to nothing.
    here = domain(OWNER, mdevs=[RANDOM] if active else (), active=active)
    return seen(state, here, devices=[gpu(vgpus=available)], mdevs=mdevs)


def orphaned(types=(VGPU_TYPE,), *, active: bool = True) -> NodeState:
    """A host with a domain that has the mediated device of another program."""
    base = device_host({}, pci=policy(mdev_types=types))
    return audited(base, look(base, active=active))


def read(mdevs=(THEIRS,), *, active: bool = True) -> GuestLayout:
    occupancy = Occupancy(mdevs=frozenset({RANDOM}))
    return GuestLayout(
        usage=domain_usage(OWNER, 1, 1024, active=active, occupancy=occupancy),
        cells=(GuestCell(vcpus=frozenset({0}), memory_mb=1024),),
        mdevs={mdev.uuid: mdev for mdev in mdevs},
    )


def adopted(state: NodeState, layout: GuestLayout, *, shut_off: bool = False):
    asked = call("adopt_domain")
    return after(state, adopt(state, asked, NOON, OWNER, layout, None, shut_off=shut_off))


@pytest.mark.parametrize("active", [True, False], ids=["runs", "shut-off"])
def test_a_mediated_device_with_any_uuid_is_adopted_with_its_type_and_parent(active):
    before = orphaned(active=active)
    state, claim = adopted(before, read(active=active), shut_off=not active)
    (unit,) = claim.resources
    assert (unit.resource_class, unit.parent_addr) == ("VGPU", GPU_0)
    assert unit.identifier == f"{GPU_0}/nvidia-11/{RANDOM}"
    assert mdev_uuid(NODE.uuid, unit.identifier) == RANDOM
    assert RANDOM in guest.xml(claim)
    assert claimed_usage(claim).occupancy.mdevs == {RANDOM}
    assert not [*orphans(state), *drifts(state), *absent(state)]
    assert len(state.resource_inventories[0].identifiers) == 4
    assert plan(state, look(state, active=active), set()) == ()


def test_after_its_claim_it_is_available_as_long_as_it_exists():
    state, claim = adopted(orphaned(), read())
    found = seen(state, devices=[gpu(vgpus=3)], mdevs=[THEIRS])
    free = audited(released(state, claim), found)
    assert claim.resources[0].identifier in free.resource_inventories[0].identifiers
    gone = audited(free, seen(free, devices=[gpu(vgpus=4)]))
    assert gone.resource_inventories[0].identifiers == tuple(
        f"{GPU_0}/nvidia-11/{number}" for number in range(4)
    )


def test_an_audit_that_began_before_the_adoption_keeps_its_identifier():
    before = orphaned()
    steps = plan(before, look(before, available=2), set())
    state, claim = adopted(before, read())
    change, _ = apply(state, steps, before.revision, NOON)
    applied = state if change is None else state.fold(change)
    assert claim.resources[0].identifier in applied.resource_inventories[0].identifiers


def limited(number: int):
    return (replace(VGPU_TYPE, max_instances=number),)


def test_one_in_use_takes_the_place_of_a_free_one_within_max_instances():
    state, claim = adopted(orphaned(limited(2)), read())
    (inventory,) = state.resource_inventories
    assert inventory.identifiers == (f"{GPU_0}/nvidia-11/0", claim.resources[0].identifier)
    assert plan(state, look(state), set()) == ()
    state, _ = built(state, extra_resource={"VGPU": 1})
    assert not absent(audited(state, look(state)))
    refused = refusal(state, request(extra_resource={"VGPU": 1}))
    assert [reason.available for reason in refused.reasons] == [0]


def test_more_in_use_than_max_instances_are_not_adopted():
    state, _ = built(orphaned(limited(1)), extra_resource={"VGPU": 1})
    sentence = f"2 mediated devices of {GPU_0} are in use, and max_instances of their type is 1"
    with pytest.raises(DomainNotAdoptable, match=sentence):
        adopted(state, read())
    assert [each.domain_uuid for each in orphans(state)] == [OWNER]


def test_one_that_a_running_domain_uses_is_not_taken_from_it():
    base = device_host({}, pci=policy(mdev_types=(VGPU_TYPE,)))
    here = (domain(OWNER, active=False), domain(uid(78), mdevs=[RANDOM]))
    state = audited(base, seen(base, *here, devices=[gpu(vgpus=3)], mdevs=[THEIRS]))
    with pytest.raises(DomainNotAdoptable, match=RANDOM):
        adopted(state, read(active=False), shut_off=True)


@pytest.mark.parametrize(
    ("types", "mdevs", "reason"),
    [
        pytest.param((VGPU_TYPE,), (), "which does not exist here", id="absent"),
        pytest.param((), (THEIRS,), "does not enable that type", id="no-type"),
        pytest.param(
            (replace(VGPU_TYPE, addresses=frozenset({"0000:99:00.0"})),),
            (THEIRS,),
            "does not enable that type",
            id="another-device",
        ),
    ],
)
def test_one_that_is_absent_or_not_enabled_is_refused_with_the_reason(types, mdevs, reason):
    state = orphaned(types)
    with pytest.raises(DomainNotAdoptable, match=reason):
        adopted(state, read(mdevs))
    assert [each.domain_uuid for each in orphans(state)] == [OWNER]
