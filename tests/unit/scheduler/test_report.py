"""Reports of a node: which of its instances are made anew, and devices that nobody gets."""

import pytest
from msgspec.structs import replace

from rtagent.claims import instance_claim
from rtagent.model.change import Change
from rtagent.model.claim import LIVE_MIGRATION, OUTGOING
from rtagent.model.decision import Granted, Refused
from rtagent.model.device import MdevType, PciDevices
from rtagent.model.node_state import NodeState
from rtagent.scheduler.report import instances_of, without_devices
from tests.support.device_states import PMEM, VGPU_TYPE, device_host, policy
from tests.support.hosts import NOON, call, request
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record
from tests.support.stored_values import (
    NODE,
    NOW,
    POLICY,
    changed,
    claim,
    created,
    folded,
    migration,
)

ONE, TWO = claim(1), claim(2)
STATE = folded(NodeState(node=NODE, policy=POLICY), created(ONE, TWO))


def new_objects(before, after):
    """The instances of the later state that are not the objects of the earlier one."""
    known = instances_of(before)
    now = instances_of(after, known)
    assert now == instances_of(after)
    return [info.uuid for info in now.values() if known.get(info.uuid) is not info]


def test_only_the_instance_of_a_changed_claim_is_made_anew():
    assert new_objects(STATE, STATE) == []
    assert new_objects(STATE, folded(STATE, changed(ONE, tag="t"))) == [ONE.owner_id]


def test_instance_whose_move_has_ended_is_made_anew_although_its_claims_are_the_same():
    def move(status):
        fields = {"instance_uuid": ONE.owner_id, "migration_type": LIVE_MIGRATION}
        record = migration(1, status=status, **fields)
        return Change(cause="move", at=NOW, migrations=(record,))

    leaves = changed(ONE, state=OUTGOING, migration_uuid=migration(1).uuid)
    before = folded(STATE, move("running"), leaves)
    after = folded(before, move("completed"))
    assert instances_of(before)[ONE.owner_id].here
    assert not instances_of(after, instances_of(before))[ONE.owner_id].here


@pytest.fixture
def state():
    """A host with a GPU, a GPU for two virtual ones, and persistent memory."""
    types = (MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=2),)
    devices = record([gpu(GPU_0), gpu(GPU_1, 1, mdev_types=types)])
    made = device_host(devices, pci=policy(mdev_types=(VGPU_TYPE,)))
    return replace(
        made,
        devices=PciDevices(record([gpu(GPU_0)])),  # no specification matches the other one
        resource_inventories=(*made.resource_inventories, PMEM),
    )


@pytest.mark.parametrize(
    "specs", [{"pci_passthrough:alias": "gpu:1"}, {"resources:VGPU": "1"}], ids=str
)
def test_a_host_that_gives_no_devices_gives_nothing_that_is_made_from_one(state, specs):
    wanted = request(extra_specs=specs)
    assert isinstance(instance_claim(state, call(), NOON, wanted), Granted)
    without = without_devices(state, "they could not be listed")
    assert isinstance(instance_claim(without, call(), NOON, wanted), Refused)
