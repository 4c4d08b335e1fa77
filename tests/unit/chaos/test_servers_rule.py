"""The checker: what conductors leave behind, lose or double, is found."""

import copy
from typing import Any

import pytest

from tests.chaos.checker.claims import Claims
from tests.chaos.checker.rules import servers
from tests.unit.chaos.chaos_histories import Story, run_of

ONE, TWO = "host-1", "host-2"
SPEC = {"flavor": {"vcpus": 1, "memory_mb": 256, "root_gb": 1}}
RESOURCES = {"VCPU": 1, "MEMORY_MB": 256, "DISK_GB": 1}


def place(host: str, claim: str) -> dict[str, Any]:
    return {"host": host, "node_uuid": f"node of {host}", "claim": {"uuid": claim}}


def world() -> dict[tuple[str, str], Any]:
    """Return what is observed: a server that runs, one that was moved, and one on no host."""
    move = {"migration": {"uuid": "m"}, "source": place(ONE, "c-2"), "spec": SPEC, "was": "active"}
    records = [
        {"uuid": "a", "vm_state": "active", "spec": SPEC, "place": place(ONE, "c-1"), "move": None},
        {
            "uuid": "b",
            "vm_state": "resized",
            "spec": SPEC,
            "place": place(TWO, "c-3"),
            "move": move,
        },
        {"uuid": "c", "vm_state": "shelved_offloaded", "spec": SPEC, "place": None, "move": None},
    ]
    return {
        ("servers", ""): records,
        ("claims", ONE): {
            "claims": [
                {"uuid": "c-1", "owner_id": "a", "state": "active"},
                {"uuid": "c-2", "owner_id": "b", "state": "outgoing"},
            ]
        },
        ("claims", TWO): {"claims": [{"uuid": "c-3", "owner_id": "b", "state": "active"}]},
        ("domains", ONE): [
            {"uuid": "a", "claim": "c-1", "active": True},
            {"uuid": "b", "claim": "c-2", "active": False},
        ],
        ("domains", TWO): [{"uuid": "b", "claim": "c-3", "active": True}],
        ("placement", ONE): {"node of host-1": {"allocations": {"a": _used(), "m": _used()}}},
        ("placement", TWO): {"node of host-2": {"allocations": {"b": _used()}}},
    }


def _used() -> dict[str, Any]:
    return {"resources": dict(RESOURCES)}


def violations(observed: dict[tuple[str, str], Any]) -> list[str]:
    story = Story()
    story.add("quiet")
    for (what, host), document in observed.items():
        story.observe(what, document, host)
    run = run_of(story.entries)
    return [each.message for each in servers.check(run, Claims(run))]


def test_what_the_records_say_is_no_violation():
    assert violations(world()) == []


@pytest.mark.parametrize(
    ("spoil", "messages"),
    [
        (lambda w: w["domains", ONE][1].update(active=True), ["is missing", "should not be"]),
        (lambda w: w["domains", ONE][0].update(claim=None), ["is missing", "should not be"]),
        (lambda w: w["domains", TWO].clear(), ["is missing"]),
        (lambda w: w["domains", TWO].append({**w["domains", ONE][0]}), ["should not be"]),
        (lambda w: w["claims", ONE]["claims"].pop(0), ["is missing"]),
        (lambda w: w["claims", ONE]["claims"][1].update(state="active"), ["is", "should not be"]),
        (lambda w: w["placement", TWO].clear(), 3 * ["is missing"]),
        (
            lambda w: w["placement", TWO]["node of host-2"]["allocations"].update(c=_used()),
            3 * ["should not be"],
        ),
    ],
)
def test_a_difference_from_the_records_is_found(spoil, messages):
    observed = copy.deepcopy(world())
    spoil(observed)
    found = violations(observed)
    assert len(found) == len(messages)
    assert all(part in message for part, message in zip(messages, found, strict=True))
