"""The fit of assigned resources."""

import pytest
from immutables import Map
from msgspec.structs import replace

from rtagent.model.assignment import ResourceInventory
from rtagent.model.claim import RESOURCE
from rtagent.model.domain_usage import Occupancy
from rtagent.pci.assigned_resources import resource_choices, resources_of
from rtagent.pci.resource_groups import ResourceGroup
from tests.support.audits import domain
from tests.support.hosts import domain_usage, host, uid, with_claims
from tests.support.interpreter import function_calls

A = ResourceInventory(provider="a", resource_class="VGPU", identifiers=("a0", "a1", "a2"))
B = ResourceInventory(provider="b", resource_class="VGPU", identifiers=("b0", "b1"))
P = ResourceInventory(provider="", resource_class="CUSTOM_PMEM", identifiers=("ns0",))
GOLD = ResourceInventory(provider="a", resource_class="CUSTOM_GOLD", identifiers=("g0",))


def choices(requests, users=None, owner="me", **other):
    return resource_choices(
        (A, B, P, GOLD),
        users or {},
        owner,
        requests,
        where="cn1",
        provider_of=lambda parent: f"provider of {parent or 'the host'}",
        **other,
    )


def fit(requests, users=None, owner="me", **other):
    return next(choices(requests, users, owner, **other))


def fitted(requests, users=None, **other):
    return [resource.identifier for resource in fit(requests, users, **other).resources]


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
    assert [str(reason) for reason in fit(requests, users).reasons] == reasons


def test_reusable_resources_are_shared_with_their_owner_only():
    users = {"a0": "me", "a1": "me", "a2": "me"}
    reusable = frozenset(users)
    assert fitted({"VGPU": 3}, users, reusable=reusable) == ["a0", "a1", "a2"]
    assert hasattr(fit({"VGPU": 3}, users, "another", reusable=reusable), "reasons")


def test_every_choice_of_parent_devices_is_returned():
    every = choices({"VGPU": 2, "CUSTOM_PMEM": 1})
    found = [[resource.identifier for resource in choice.resources] for choice in every]
    assert found == [["ns0", "b0", "b1"], ["ns0", "a0", "a1"]]
    assert len(list(choices({"VGPU": 9}))) == 1


def test_resources_name_their_provider_and_their_parent_device():
    assigned = fit({"VGPU": 1, "CUSTOM_PMEM": 1}).resources
    providers = [(each.provider, each.parent_addr) for each in assigned]
    assert providers == [("provider of the host", None), ("provider of b", "b")]


def test_claim_of_a_domain_that_is_here_does_not_read_the_other_domains():
    def calls(others):
        usages = [domain(uuid=uid(100 + number)).domain_usage() for number in range(others + 1)]
        state = with_claims(host(), (), usages)
        return function_calls(lambda: resources_of(state, uid(100)))

    assert calls(40) == calls(2)


def test_resources_of_an_owner_are_those_of_its_claims_and_those_that_only_its_domain_uses():
    namespaces = {100: frozenset({"ns0", "ns1", "ns2"}), 101: frozenset({"ns1"})}
    used = {uid(number): Occupancy(namespaces=names) for number, names in namespaces.items()}
    mine, other = (domain_usage(uuid, occupancy=occupancy) for uuid, occupancy in used.items())
    state = with_claims(host(), (), [mine, other])
    taken = replace(state, units=Map({(RESOURCE, "ns2"): uid(102)}))
    assert resources_of(state, uid(100)) == {"ns0", "ns2"}
    assert resources_of(taken, uid(100)) == {"ns0"}
    assert resources_of(state, uid(103)) == frozenset()


# -- numbered groups ------------------------------------------------------------------------------


def groups(*quantities, isolated=True):
    return [ResourceGroup(quantities=each, isolated=isolated) for each in quantities]


@pytest.mark.parametrize(
    ("requests", "numbered", "expected"),
    [
        ({"VGPU": 2}, groups({"VGPU": 1}, {"VGPU": 1}), ["b0", "a0"]),
        ({"VGPU": 2}, groups({"VGPU": 1}, {"VGPU": 1}, isolated=False), ["b0", "b1"]),
        # The group that needs more chooses first.
        ({"VGPU": 5}, groups({"VGPU": 2}, {"VGPU": 3}), ["b0", "b1", "a0", "a1", "a2"]),
        # The rest of a class is not isolated from the groups.
        ({"VGPU": 4}, groups({"VGPU": 1}, {"VGPU": 1}), ["a0", "a1", "b0", "a2"]),
        # A group with two classes gets both from one provider.
        ({"VGPU": 2, "CUSTOM_GOLD": 1}, groups({"VGPU": 1, "CUSTOM_GOLD": 1}, {"VGPU": 1}),
         ["g0", "a0", "b0"]),
        # Units that are named are those.
        ({"VGPU": ("a0", "a1")}, groups({"VGPU": 1}, {"VGPU": 1}), ["a0", "a1"]),
    ],
)  # fmt: skip
def test_each_numbered_group_comes_from_one_provider(requests, numbered, expected):
    assert sorted(fitted(requests, numbered=numbered)) == sorted(expected)


def test_numbered_groups_follow_shares():
    shares = {"VGPU": {"a": 2}}
    units = fitted({"VGPU": 2}, shares=shares, numbered=groups({"VGPU": 1}, {"VGPU": 1}))
    assert units == ["a0", "a1"]


@pytest.mark.parametrize(
    ("numbered", "expected"),
    [
        (groups({"VGPU": 4}, {"VGPU": 1}), "VGPU: 4 units requested at cn1, 3 available"),
        (groups({"VGPU": 3}, {"VGPU": 1}, {"VGPU": 1}),
         "VGPU: 5 units requested at cn1 with group_policy=isolate, 4 available"),
        (groups({"VGPU": 3}, {"VGPU": 3}, isolated=False),
         "VGPU: 6 units requested at cn1 with group_policy=none, 3 available"),
    ],
)  # fmt: skip
def test_a_refusal_of_numbered_groups_has_their_policy_and_what_is_available(numbered, expected):
    total = sum(each.quantities["VGPU"] for each in numbered)
    refusal = fit({"VGPU": total}, numbered=numbered)
    assert [str(reason) for reason in refusal.reasons] == [expected]
