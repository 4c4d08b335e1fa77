"""``allocations`` and ``provider_mapping`` in calls: a mistake is named, and changes nothing."""

import pytest

from rtagent.errors import AllocationMismatch, InvalidRequest
from rtagent.rpc.methods import METHODS
from tests.support.hosts import NODE, uid
from tests.support.rpc import Agent, attach, build, migration

FLAVOR = {"vcpus": 2, "memory_mb": 2048}
#: What a guest of 1 vCPU and 1024 MB has, and what one of `FLAVOR` has.
SMALL = {NODE.uuid: {"resources": {"VCPU": 1, "MEMORY_MB": 1024}, "generation": 3}}
LARGE = {NODE.uuid: {"resources": {"VCPU": 2, "MEMORY_MB": 2048}}}
CREATING = ("instance_claim", "resize_claim", "live_migration_claim", "rebuild_claim")


def arguments(method: str) -> dict:
    """Return valid arguments of a call that creates a claim, or tests one."""
    whole = build()
    match method:
        case "test_claim":
            del whole["operation_id"]
        case "resize_claim":
            whole |= {"flavor": FLAVOR, "migration": migration("resize")}
        case "live_migration_claim":
            whole |= {"migration": migration("live-migration")}
        case "rebuild_claim":
            whole |= {"migration": migration("evacuation")}
    return whole


@pytest.mark.parametrize("method", [*CREATING, "test_claim"])
def test_claims_follow_their_allocations(agent: Agent, method: str):
    right, wrong = (LARGE, SMALL) if method == "resize_claim" else (SMALL, LARGE)
    reply = agent.invoke(method, **arguments(method), allocations=right)
    claim = reply["claim"] if method == "test_claim" else reply
    (recorded,) = claim["allocations"].values()
    assert recorded["resources"] == right[NODE.uuid]["resources"]

    before = agent.tracker.snapshot()
    with pytest.raises(AllocationMismatch) as raised:
        agent.invoke(method, **arguments(method), allocations=wrong)
    found = raised.value.kwargs["mismatches"]
    assert {each["resource_class"] for each in found} == {"VCPU", "MEMORY_MB"}
    assert "MEMORY_MB of this node's providers: " in raised.value.message
    assert agent.tracker.snapshot() is before
    assert "AllocationMismatch" in METHODS[method].all_errors


def test_attach_claims_follow_their_allocations(agent: Agent):
    guest = build()
    agent.invoke("instance_claim", **guest)
    wrong = {"gpu": [uid()]}
    asked = attach(guest["instance"])
    with pytest.raises(AllocationMismatch):
        agent.invoke("claim_pci_devices", **asked, allocations=SMALL, provider_mapping=wrong)
    claim = agent.invoke("claim_pci_devices", **asked, allocations=SMALL)
    assert claim["allocations"].keys() == SMALL.keys()


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"allocations": []}, ["$.allocations"]),
        ({"allocations": {"x": {"resources": {}}}}, ["$.allocations.x"]),
        ({"allocations": {NODE.uuid: []}}, [f'$.allocations["{NODE.uuid}"]']),
        ({"allocations": {NODE.uuid: {}}}, [f'$.allocations["{NODE.uuid}"].resources']),
        *(
            (
                {"allocations": {NODE.uuid: {"resources": {"VCPU": bad}}}},
                [f'$.allocations["{NODE.uuid}"].resources.VCPU'],
            )
            for bad in (0, -1, "1", 1.5, None, 2**31, True)
        ),
        (
            {"allocations": {NODE.uuid: {"resources": {"\0": 1}}}},
            [f'$.allocations["{NODE.uuid}"].resources["\\u0000"]'],
        ),
        (
            {"allocations": {NODE.uuid: {"resources": [], "generation": -1, "used": 1}}},
            [
                f'$.allocations["{NODE.uuid}"].resources',
                f'$.allocations["{NODE.uuid}"].generation',
                f'$.allocations["{NODE.uuid}"].used',
            ],
        ),
        ({"provider_mapping": []}, ["$.provider_mapping"]),
        ({"provider_mapping": {"gpu": NODE.uuid}}, ["$.provider_mapping.gpu"]),
        ({"provider_mapping": {"gpu": []}}, ["$.provider_mapping.gpu"]),
        ({"provider_mapping": {"gpu": ["x"]}}, ["$.provider_mapping.gpu[0]"]),
        ({"provider_mapping": {"x" * 256: [NODE.uuid]}}, [f"$.provider_mapping.{'x' * 256}"]),
    ],
)
@pytest.mark.parametrize("method", ["instance_claim", "claim_pci_devices"])
def test_invalid_documents_are_refused_by_path(agent: Agent, method: str, given, paths):
    valid = attach(build()["instance"]) if method == "claim_pci_devices" else arguments(method)
    before = agent.tracker.snapshot()
    with pytest.raises(InvalidRequest) as refused:
        agent.invoke(method, **valid, **given)
    assert sorted(each["path"] for each in refused.value.kwargs["errors"]) == sorted(paths)
    assert agent.tracker.snapshot() is before
