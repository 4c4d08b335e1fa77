"""Members of classes."""

import pytest

from rtagent.model.specific import SpecificInventory, SpecificUnit
from rtagent.pci.specific import fit_units, missing

A = SpecificInventory(provider="a", resource_class="VGPU", identifiers=("a0", "a1", "a2"))
B = SpecificInventory(provider="b", resource_class="VGPU", identifiers=("b0", "b1"))
P = SpecificInventory(provider="", resource_class="CUSTOM_PMEM", identifiers=("ns0",))


def units(asked, holders=None, owner="me", **other):
    answer = fit_units([A, B, P], holders or {}, owner, asked, where="cn1", **other)
    return [unit.identifier for unit in answer.units]


@pytest.mark.parametrize(
    ("asked", "holders", "expected"),
    [
        ({}, {}, []),
        ({"VGPU": 1}, {}, ["b0"]),
        ({"VGPU": 3}, {}, ["a0", "a1", "a2"]),
        ({"VGPU": 2}, {"b0": "x"}, ["a0", "a1"]),
        ({"VGPU": 1, "CUSTOM_PMEM": 1}, {"b0": "x"}, ["ns0", "b1"]),
        ({"VGPU": ("a2", "b1")}, {}, ["a2", "b1"]),
    ],
)
def test_all_that_is_asked_for(asked, holders, expected):
    assert units(asked, holders) == expected


@pytest.mark.parametrize(
    ("asked", "holders", "told"),
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
def test_nothing_and_every_reason(asked, holders, told):
    answer = fit_units([A, B, P], holders, "me", asked, where="cn1")
    assert [str(reason) for reason in answer.reasons] == told


def test_what_the_owner_has_may_be_shared_by_his_own_move():
    held = {"a0": "me", "a1": "me", "a2": "me"}
    assert units({"VGPU": 3}, held, offered=frozenset(held)) == ["a0", "a1", "a2"]
    other = fit_units([A], held, "another", {"VGPU": 3}, where="cn1", offered=frozenset(held))
    assert hasattr(other, "reasons")


def test_what_is_held_and_gone_is_told():
    held = [
        SpecificUnit(provider="a", resource_class="VGPU", identifier=name) for name in ("a0", "a9")
    ]
    assert [unit.identifier for unit in missing([A, B], held)] == ["a9"]
