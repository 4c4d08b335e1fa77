"""The fit of assigned resources."""

import pytest

from rtagent.model.assigned_resources import AssignedResource, ResourceInventory
from rtagent.pci.assigned_resources import missing, resource_choices

A = ResourceInventory(provider="a", resource_class="VGPU", identifiers=("a0", "a1", "a2"))
B = ResourceInventory(provider="b", resource_class="VGPU", identifiers=("b0", "b1"))
P = ResourceInventory(provider="", resource_class="CUSTOM_PMEM", identifiers=("ns0",))


def fit(requests, users=None, owner="me", inventories=(A, B, P), **other):
    return next(choices(requests, users, owner, inventories, **other))


def choices(requests, users=None, owner="me", inventories=(A, B, P), **other):
    return resource_choices(
        inventories,
        users or {},
        owner,
        requests,
        where="cn1",
        provider_of=lambda parent: f"provider of {parent or 'the host'}",
        **other,
    )


def fitted(requests, users=None, owner="me", **other):
    result = fit(requests, users, owner, **other)
    return [resource.identifier for resource in result.resources]


@pytest.mark.parametrize(
    ("requests", "users", "expected"),
    [
        ({}, {}, []),
        ({"VGPU": 1}, {}, ["b0"]),
        ({"VGPU": 3}, {}, ["a0", "a1", "a2"]),
        ({"VGPU": 2}, {"b0": "x"}, ["a0", "a1"]),
        ({"VGPU": 1, "CUSTOM_PMEM": 1}, {"b0": "x"}, ["ns0", "b1"]),
        ({"VGPU": ("a2", "b1")}, {}, ["a2", "b1"]),
    ],
)
def test_fit_returns_all_requested_resources(requests, users, expected):
    assert fitted(requests, users) == expected


@pytest.mark.parametrize(
    ("requests", "users", "reasons"),
    [
        ({"VGPU": 4}, {}, ["VGPU: 4 units requested at cn1, 3 available"]),
        ({"VGPU": 3}, {"a0": "x"}, ["VGPU: 3 units requested at cn1, 2 available"]),
        ({"VGPU": ("a0", "a1")}, {"a0": "x"}, ["VGPU: 2 units requested at cn1, 1 available"]),
        ({"FPGA": 1}, {}, ["FPGA: 1 units requested at cn1, which this host does not offer"]),
        ({"VGPU": ("a0", "a0")}, {}, ["VGPU: 2 units requested at cn1, 1 available"]),
        (
            {"CUSTOM_PMEM": 2, "VGPU": 4},
            {},
            [
                "VGPU: 4 units requested at cn1, 3 available",
                "CUSTOM_PMEM: 2 units requested at cn1, 1 available",
            ],
        ),
    ],
)
def test_refusal_has_every_reason(requests, users, reasons):
    result = fit(requests, users)
    assert [str(reason) for reason in result.reasons] == reasons


def test_reusable_resources_are_shared_with_their_owner_only():
    users = {"a0": "me", "a1": "me", "a2": "me"}
    reusable = frozenset(users)
    assert fitted({"VGPU": 3}, users, reusable=reusable) == ["a0", "a1", "a2"]
    other = fit({"VGPU": 3}, users, "another", [A], reusable=reusable)
    assert hasattr(other, "reasons")


def test_every_choice_of_parent_devices_is_returned():
    found = [
        [resource.identifier for resource in each.resources]
        for each in choices({"VGPU": 2, "CUSTOM_PMEM": 1})
    ]
    assert found == [["ns0", "b0", "b1"], ["ns0", "a0", "a1"]]
    assert len(list(choices({"VGPU": 9}))) == 1


def test_resources_name_their_provider_and_their_parent_device():
    assigned = fit({"VGPU": 1, "CUSTOM_PMEM": 1}).resources
    assert [(each.provider, each.parent_addr) for each in assigned] == [
        ("provider of the host", None),
        ("provider of b", "b"),
    ]


def test_assigned_resources_in_no_inventory_are_missing():
    assigned = [
        AssignedResource(parent_addr="a", resource_class="VGPU", identifier=name)
        for name in ("a0", "a9")
    ]
    assert [resource.identifier for resource in missing([A, B], assigned)] == ["a9"]
