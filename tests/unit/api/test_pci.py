"""The views of PCI devices and assigned resources."""

import pytest
from immutables import Map
from msgspec.structs import replace

from rtagent.api import pci
from rtagent.api.pci import DeviceView
from rtagent.errors import InvalidRequest
from rtagent.pci.device_users import (
    ALLOCATED,
    AVAILABLE,
    CLAIMED,
    REMOVED,
    UNAVAILABLE,
    UNCLAIMABLE,
)
from rtagent.pci.mdev import mdev_uuid
from tests.support.hosts import NODE
from tests.support.owned_hosts import (
    DB,
    DB_CLAIM,
    FOREIGN_DOMAIN,
    FOREIGN_VF,
    GROUP_GPU,
    MDEV_GPU,
    REMOVED_GPU,
    VGPU,
    WEB,
    WEB_CLAIM,
    devices_in_every_state,
)
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, PF_1, vf


def addresses(**filters: str) -> list[str]:
    return [device.address for device in pci.devices(devices_in_every_state(), filters)["pci"]]


def shown(address: str) -> DeviceView:
    return pci.device(devices_in_every_state(), address)["pci"]


def test_every_device_has_a_status_with_its_reason_and_is_listed_by_address():
    listed = pci.devices(devices_in_every_state(), {})["pci"]
    assert addresses() == sorted(addresses())
    assert {device.address: (device.status, device.reason) for device in listed} == {
        GPU_0: (ALLOCATED, ""),
        GROUP_GPU: (UNAVAILABLE, f"{GPU_0} of its IOMMU group 7 is held by {WEB}"),
        MDEV_GPU: (ALLOCATED, ""),
        PF_0: (UNCLAIMABLE, f"its virtual function {vf(0)} is held by {DB}"),
        vf(0): (CLAIMED, ""),
        vf(1): (AVAILABLE, ""),
        PF_1: (UNAVAILABLE, f"its virtual function {FOREIGN_VF} is held by {FOREIGN_DOMAIN}"),
        FOREIGN_VF: (ALLOCATED, ""),
        GPU_1: (UNAVAILABLE, "it overheats"),
        REMOVED_GPU: (REMOVED, "it has left the host"),
    }
    quarantines = {device.address: device.quarantine for device in listed if device.quarantine}
    assert quarantines == {REMOVED_GPU: "it was lent", GPU_1: "it overheats"}


@pytest.mark.parametrize(
    ("address", "owner", "others"),
    [
        (vf(0), (DB, "db-1", DB_CLAIM.uuid), ()),
        # A claim takes precedence over a domain that uses its device.
        (GPU_0, (WEB, "web-1", WEB_CLAIM.uuid), (FOREIGN_DOMAIN,)),
        (FOREIGN_VF, (FOREIGN_DOMAIN, "odd", None), ()),
        (MDEV_GPU, (WEB, "web-1", WEB_CLAIM.uuid), (FOREIGN_DOMAIN,)),
    ],
    ids=["claimed", "also used", "foreign", "mediated"],
)
def test_a_device_names_its_owner_and_other_users(address, owner, others):
    device = shown(address)
    assert (device.owner_id, device.name, device.claim_uuid) == owner
    assert device.others == others


def test_a_device_has_its_properties():
    ids = {"vendor_id": "8086", "product_id": "154c", "resource_class": "CUSTOM_PCI_8086_154C"}
    place = {"numa_node": 0, "parent_addr": PF_0, "iommu_group": None, "net_name": "p20v1"}
    tags = {"physical_network": "physnet1", "trusted": "yes"}
    view = {**ids, **place, "dev_type": "type-VF", "tags": tags, "status": AVAILABLE}
    assert shown(vf(1)) == DeviceView(node=NODE.hypervisor_hostname, address=vf(1), **view)


def test_a_device_has_its_root_port():
    state, ports = devices_in_every_state(), Map({PF_0: "0000:00:04.0"})
    listed = {each.address: each.root_port for each in pci.devices(state, {}, ports)["pci"]}
    assert listed == {**dict.fromkeys(state.devices), **ports}
    assert pci.device(state, PF_0, ports)["pci"].root_port == "0000:00:04.0"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"status": ALLOCATED}, [GPU_0, MDEV_GPU, FOREIGN_VF]),
        ({"instance": DB}, [vf(0)]),
        ({"instance": FOREIGN_DOMAIN}, [FOREIGN_VF]),
        ({"dev_type": "type-PF"}, [PF_0, PF_1]),
        ({"address": REMOVED_GPU}, [REMOVED_GPU]),
        ({"node": "other"}, []),
        ({"status": ALLOCATED, "dev_type": "type-VF"}, [FOREIGN_VF]),
    ],
)
def test_devices_are_filtered(filters, expected):
    assert addresses(**filters) == expected


def test_an_invalid_filter_value_is_an_error():
    with pytest.raises(InvalidRequest) as raised:
        addresses(status="free", dev_type="vf", node="other", address="zz", instance=DB.upper())
    named = [each["path"] for each in raised.value.kwargs["errors"]]
    assert named == ["address", "dev_type", "instance", "status"]


def test_an_assigned_resource_names_its_owner():
    listed = pci.resources(devices_in_every_state())["resources"]
    assert [(each.identifier, each.status, each.name, each.present) for each in listed] == [
        (VGPU[0], ALLOCATED, "web-1", True),
        (VGPU[1], ALLOCATED, "odd", True),
        (VGPU[2], AVAILABLE, None, True),
        ("ns_0", AVAILABLE, None, True),
        ("ns_9", ALLOCATED, "web-1", False),
    ]
    assert listed[0].mdev_uuid == mdev_uuid(NODE.uuid, VGPU[0])
    assert listed[3].mdev_uuid is None
    assert [each.claim_uuid for each in listed] == [WEB_CLAIM.uuid, *[None] * 3, WEB_CLAIM.uuid]


@pytest.mark.parametrize(
    ("state", "status"),
    [("building", CLAIMED), ("incoming", CLAIMED), ("active", ALLOCATED), ("outgoing", ALLOCATED)],
)
def test_a_resource_is_claimed_until_its_domain_may_run(state, status):
    claim = replace(WEB_CLAIM, state=state)
    held = replace(devices_in_every_state(), claims=Map({claim.uuid: claim}))
    assert pci.resources(held)["resources"][0].status == status
