"""The checker: a good history passes, and each broken promise is found and named."""

import pytest

from tests.support.interpreter import function_calls
from tests.unit.chaos.chaos_histories import (
    ACTIVE,
    DEVICES,
    HOST,
    MOVED,
    NODE,
    REFUSED,
    RELEASED,
    UNANSWERED,
    Story,
    claim,
    good,
)


def node(story: Story) -> dict:
    return story.observed("node")["nodes"][0]


def events(story: Story) -> list:
    return story.observed("events")["events"]


def lost(story: Story) -> None:
    story.claims[:] = story.without(ACTIVE)


def lost_in_a_read(story: Story) -> None:
    story.list_claims([])


def denied(story: Story) -> None:
    story.call("get_claim", {"claim_uuid": ACTIVE}, error="ClaimNotFound")


def lost_after_a_refused_end(story: Story) -> None:
    story.entries.insert(0, {"type": "note"})
    story.call("release_claim", {"claim_uuid": ACTIVE}, "r-1", error="GuestRunning")
    story.list_claims([])


def forgotten(story: Story) -> None:
    story.claims.append(claim(RELEASED, (4, 5), pci=[]))


def refused(story: Story) -> None:
    story.claims.append(claim(REFUSED))


def unknown(story: Story) -> None:
    story.claims.append(claim("c-7"))


def half(story: Story) -> None:
    story.claims[1]["memory_mb"] = 256


def twice(story: Story) -> None:
    story.build("c-6", document=claim("c-6", (3, 6), pci=[], revision=10))


def twice_before_an_end(story: Story) -> None:
    story.build("c-6", document=claim("c-6", (6, 7), revision=10))
    story.call("release_claim", {"claim_uuid": "c-6"}, "r-6", reply=None)


def twice_observed(story: Story) -> None:
    story.claims[1]["pci"] = [{"address": "0000:08:00.0"}]


def beyond(story: Story) -> None:
    story.build("c-6", document=claim("c-6", vcpus=7, revision=10))


def pages_beyond(story: Story) -> None:
    document = claim("c-6", (6, 7), pci=[], memory_mb=2048, revision=10)
    document["numa_topology"]["cells"][0]["memory"] = 2048
    story.build("c-6", document=document)


def other_units(story: Story) -> None:
    story.build(ACTIVE, document=claim(ACTIVE, (2, 6), revision=10))


def other_uuid(story: Story) -> None:
    story.build(ACTIVE, document=claim("c-8", (2, 3), revision=10))


def two_claims(story: Story) -> None:
    story.build("c-6", document=claim("c-6", revision=10, owner_id="o-1"))
    story.claims.append(claim("c-6", owner_id="o-1"))


def older(story: Story) -> None:
    story.call("get_node", {}, reply={"revision": 7, "stale": False, "node": {}}, process="two")


def older_for_one_caller(story: Story) -> None:
    story.call("get_node", {}, reply={"revision": 7, "stale": True, "node": {}})


def used(story: Story) -> None:
    node(story)["inventories"]["MEMORY_MB"]["used"] += 128


def used_too_little(story: Story) -> None:
    node(story)["inventories"]["DISK_GB"]["used"] = 0


def pinned(story: Story) -> None:
    node(story).update(orphans=0)
    story.observed("domains").clear()
    node(story)["inventories"]["VCPU"]["used"] = 4
    node(story)["inventories"]["MEMORY_MB"]["used"] = 1536
    node(story)["numa_topology"]["cells"][0]["pinned_cpus"] = [2]


def surplus_row(story: Story) -> None:
    story.observed("units")["units"].append({"kind": "PCPU", "unit": "5", "owner_id": "o-2"})


def missing_row(story: Story) -> None:
    story.observed("units")["units"].pop(2)


def allocation_missing(story: Story) -> None:
    del story.observed("placement")[NODE]["allocations"]["o-1"]


def allocation_left(story: Story) -> None:
    story.observed("placement")[NODE]["allocations"]["o-2"] = {"resources": {"VCPU": 2}}


def device_allocation_missing(story: Story) -> None:
    del story.observed("placement")[DEVICES]["allocations"]["m-5"]


def device_allocation_left(story: Story) -> None:
    left = {"resources": {"VGPU": 2}}
    story.observed("placement")[DEVICES]["allocations"]["o-2"] = left


def reserved_twice(story: Story) -> None:
    story.observed("placement")[NODE]["inventories"]["VCPU"]["reserved"] = 5


def inventory(story: Story) -> None:
    story.observed("placement")[NODE]["inventories"]["VCPU"]["total"] = 3


def view(story: Story) -> None:
    story.observed("scheduler")[HOST]["host"]["vcpus_used"] = 5


def view_missing(story: Story) -> None:
    del story.observed("scheduler")[HOST]


def ill(story: Story) -> None:
    story.observed("health").update(status="fail", checks={"store": [{"status": "fail"}]})


def event_missing(story: Story) -> None:
    del events(story)[-1]


def event_twice(story: Story) -> None:
    events(story).append(events(story)[0])


def event_of_refused(story: Story) -> None:
    events(story)[5]["event_type"] = "claim.create"


def end_without_event(story: Story) -> None:
    events(story)[3].update(event_type="claim.update")
    events(story)[3]["payload"]["state"] = "building"


def chain(story: Story) -> None:
    events(story)[1]["payload"]["before_state"] = "incoming"


def history(story: Story) -> None:
    story.observed("units")["claim_events"].pop(0)


def history_missing(story: Story) -> None:
    story.observed("units")["claim_events"].pop(4)


def history_without_end(story: Story) -> None:
    story.observed("units")["claim_events"].pop(3)


def history_with_surplus(story: Story) -> None:
    after = '{"state": "released", "memory_mb": 512}'
    before = story.observed("units")["claim_events"][-1]["after"]
    row = {"id": 9, "claim_uuid": MOVED, "action": "release", "before": before, "after": after}
    story.observed("units")["claim_events"].append(row)


def other_event(story: Story) -> None:
    events(story)[1]["payload"]["memory_mb"] = 1


def waits(story: Story) -> None:
    call = story.invoke("release_claim", {"claim_uuid": UNANSWERED}, "r-3")
    story.wait(200)
    story.add("ok", process="caller-1", call=call, reply=None)


def no_end(story: Story) -> None:
    story.invoke("ping", {})
    story.add("quiet")


def served(story: Story) -> None:
    story.call("get_node", {}, reply={}, process="adversary-1")


def replayed_end(story: Story) -> None:
    """A repetition of an earlier call has ended a later claim of the same owner."""
    gone = {"instance": {"uuid": "o-6", "vm_state": "deleted"}}
    story.call("update_usage", gone, "u-6")
    story.build("c-6", document=claim("c-6", revision=10))
    story.call("update_usage", gone, "u-6")
    story.list_claims()


def ended_by_an_adversary(story: Story) -> None:
    arguments = {"claim_uuid": ACTIVE}
    error = {"error": "MessagingTimeout", "outcome": "info", "process": "adversary-1"}
    story.call("release_claim", arguments, "r-1", **error)
    story.list_claims([])


def attached_to_nothing(story: Story) -> None:
    story.build("c-6", document=claim("c-6", revision=10))
    attach(story, "c-7", "o-6")
    story.call("release_claim", {"claim_uuid": "c-6"}, "r-6", reply=None)
    story.list_claims([*story.claims, claim("c-7", kind="attach", owner_id="o-6")])


def attached_twice(story: Story) -> None:
    attach(story, "c-7", "o-6", pci=[{"address": "0000:08:00.0"}])


def attach(story: Story, uuid: str, owner: str, **fields) -> None:
    """Add a call that claims a device for a guest."""
    quantities = {"vcpus": 0, "memory_mb": 0, "disk_mb": 0}
    document = claim(uuid, kind="attach", owner_id=owner, revision=11, **quantities, **fields)
    story.call("claim_pci_devices", {"instance": {"uuid": owner}}, uuid, reply=document)


def lapsed(story: Story) -> None:
    """A claim that was not activated is there long after its lease."""
    abandoned = claim("c-6", revision=10)
    story.build("c-6", document=abandoned)
    story.add("fault", name="kill-placement", state="end", target="placement", details={})
    story.wait(300)
    story.add("quiet")
    document = {"claims": [*story.claims, abandoned], "revision": 11, "stale": False}
    story.observe("claims", document)
    story.observe("domains", [])


def nothing_granted(story: Story) -> None:
    for entry in story.entries:
        if entry["type"] == "ok":
            entry.update(type="fail", error={"type": "ComputeResourcesUnavailable"})
    for number in range(50):
        story.build(f"c-{number + 10}", error="ComputeResourcesUnavailable")


BAD = (
    (lost, "P1", f"claim {ACTIVE} was granted, and is missing"),
    (lost_in_a_read, "P1", f"claim {MOVED} was granted, and is missing"),
    (lost_after_a_refused_end, "P1", f"claim {ACTIVE} was granted, and is missing"),
    (denied, "P1", f"although claim {ACTIVE} is held"),
    (forgotten, "P7", f"claim {RELEASED} is there after release_claim"),
    (refused, "P14", f"claim {REFUSED} was refused, and is there"),
    (unknown, "P14", "claim c-7, which no caller asked for"),
    (half, "P2", f"claim {UNANSWERED} has 256 MB, its flavor 512 MB"),
    (twice, "P6", f"PCPU 3 was held by claim {ACTIVE} and by claim c-6"),
    (twice_before_an_end, "P6", f"PCI 0000:08:00.0 was held by claim {ACTIVE} and by claim c-6"),
    (twice_observed, "P6", f"PCI 0000:08:00.0 is in claim {ACTIVE} and in claim {UNANSWERED}"),
    (beyond, "P6", "9 of 8 VCPU were held"),
    (pages_beyond, "P6", "1280 of 1024 pages of 2048 KiB on cell 0 were held"),
    (other_units, "P12", "was granted with other units: PCPU 3, PCPU 6"),
    (other_uuid, "P12", f"operation {ACTIVE} was answered with claim c-8"),
    (two_claims, "P6", f"owner o-1 has claims {ACTIVE}, c-6"),
    (older, "Durable before visible", "get_node shows revision 7 after"),
    (older_for_one_caller, "Durable before visible", "get_node shows revision 7"),
    (used, "Usage", "1792 MEMORY_MB are used, the sum is 1664"),
    (used_too_little, "Usage", "0 DISK_MB are used, the sum is 3072"),
    (pinned, "Usage", "CPUs [2] are pinned, the claims have [2, 3]"),
    (surplus_row, "P6", "the row PCPU 5 of owner o-2 has no claim"),
    (missing_row, "P6", "PCI 0000:08:00.0 of owner o-1 has no row"),
    (allocation_missing, "Placement", "consumer o-1 has {} in Placement"),
    (allocation_left, "Placement", "consumer o-2 has {'VCPU': 2} in Placement"),
    (
        device_allocation_missing,
        "Placement",
        "consumer m-5 has 0 VGPU of provider host-1_pci_0000_48_00_0 in Placement, its claims 1",
    ),
    (device_allocation_left, "Placement", "consumer o-2 has 2 VGPU of provider host-1_pci"),
    (reserved_twice, "Placement", "5 VCPU are reserved, which leaves 3 for 4"),
    (inventory, "Placement", "Placement has an inventory of 3 VCPU, the node 8"),
    (view, "The scheduler's view", "it has vcpus_used 5 of host-1, the node 7"),
    (view_missing, "The scheduler's view", "scheduler-1: it does not know host-1"),
    (ill, "The agent recovers", "its health fails (store)"),
    (event_missing, "P2", f"claim {MOVED} is outgoing, by its events it is active"),
    (event_twice, "P2", "event 1-1 is there twice"),
    (event_of_refused, "P2", f"there are events of claim {REFUSED}, which was refused"),
    (end_without_event, "P2", f"claim {RELEASED} has ended, and has no event of its end"),
    (chain, "P2", f"event 1-2 of claim {ACTIVE} begins with state incoming"),
    (other_event, "P2", f"memory_mb of claim {ACTIVE} is 512, by its events it is 1"),
    (history, "P2", f"the history of claim {ACTIVE} begins with activate"),
    (history_missing, "P2", f"claim {UNANSWERED} has no recorded history"),
    (history_without_end, "P2", f"state of claim {RELEASED} is released, by its history building"),
    (history_with_surplus, "P2", f"state of claim {MOVED} is outgoing, by its history released"),
    (attached_to_nothing, "P7", "claim c-7 is there after release_claim has ended it"),
    (attached_twice, "P6", f"PCI 0000:08:00.0 was held by claim {ACTIVE} and by claim c-7"),
    (lapsed, "P4", "claim c-6 is there 12"),
    (nothing_granted, "P5", "none of 55 claims was granted"),
    (waits, "P5", "release_claim of caller-1 took 201 s, over 100 s"),
    (no_end, "P5", "ping of caller-1 had no end when everything was quiet"),
    (served, "Trust", "get_node of adversary-1 was served"),
    (replayed_end, "P1", "claim c-6 was granted, and is missing"),
    (ended_by_an_adversary, "P1", f"claim {ACTIVE} was granted, and is missing"),
)


def test_a_good_history_has_no_violation():
    assert good().violations() == []


@pytest.mark.parametrize(
    ("spoil", "promise", "message"), BAD, ids=[spoil.__name__ for spoil, _, _ in BAD]
)
def test_a_bad_history_is_found(spoil, promise, message):
    story = good()
    spoil(story)
    found = story.violations()
    matching = [each for each in found if each.promise.startswith(promise)]
    assert any(message in each.message for each in matching), found
    assert all(each.lines for each in found)


@pytest.mark.parametrize(("spoil", "promise"), [(lapsed, "P4"), (waits, "P5")])
def test_everything_may_take_longer_where_the_run_says_so(spoil, promise):
    def promises(patience: float) -> set[str]:
        story = good()
        story.entries.insert(0, {"type": "begin", "patience": patience})
        spoil(story)
        return {each.promise[:2] for each in story.violations()}

    assert promise in promises(1)
    assert promise not in promises(6)


def test_the_work_for_a_history_grows_as_its_length():
    def work(claims: int) -> int:
        story = Story()
        for number in range(claims):
            uuid = f"c-{number}"
            story.build(uuid, document=claim(uuid, revision=number))
            story.call("release_claim", {"claim_uuid": uuid}, f"r-{number}", reply=None)
        story.call("get_claims_for_host", {}, reply={"revision": claims, "claims": []})
        return function_calls(lambda: violations.extend(story.violations()))

    violations: list[object] = []
    assert work(800) < 5 * work(200)
    assert violations == []
