"""The checker: what leases, unknown outcomes and restored copies allow is no violation."""

import pytest

from tests.unit.chaos.chaos_histories import ACTIVE, HOST, LEASE, MOVED, NODE, Story, claim, good


def test_a_lease_ends_a_claim_that_was_not_activated():
    story = good()
    story.build("c-6", document=claim("c-6", revision=10))
    story.wait(LEASE + 5)
    story.list_claims()
    assert story.violations() == []


def test_a_lease_begins_with_the_first_call_although_a_repetition_was_answered():
    story = good()
    story.build("c-6", error="MessagingTimeout", outcome="info")
    story.wait(LEASE - 20)
    story.build("c-6", document=claim("c-6", revision=10))
    story.wait(25)
    story.list_claims()
    assert story.violations() == []


@pytest.mark.parametrize("target", [HOST, f"{HOST} - database", "postgresql"])
def test_a_fault_may_begin_a_lease_anew(target: str):
    story = good()
    story.build("c-6", document=claim("c-6", revision=10))
    story.wait(300)
    story.add("fault", name="a-fault", state="end", target=target, details={})
    story.add("quiet")
    document = {"claims": [*story.claims, claim("c-6", revision=10)], "revision": 11}
    story.observe("claims", document)
    story.observe("domains", [])
    assert not [each for each in story.violations() if each.promise.startswith("P4")]


def test_a_renewed_lease_does_not_end_early():
    story = good()
    story.build("c-6", document=claim("c-6", revision=10))
    story.wait(LEASE - 10)
    renewed = claim("c-6", revision=11)
    story.call("renew_claim", {"claim_uuid": "c-6"}, "n-6", reply=renewed)
    story.wait(LEASE - 10)
    story.list_claims()
    assert "claim c-6 was granted, and is missing" in str(story.violations()[0])


@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_a_call_of_its_owner_may_end_a_claim(outcome):
    story = good()
    gone = {"instance": {"uuid": "o-1", "vm_state": "deleted"}}
    error = {"error": "MessagingTimeout", "outcome": "info"} if outcome == "info" else {}
    story.call("update_usage", gone, "u-1", **error)
    story.list_claims(story.without(ACTIVE))
    assert story.violations() == []


def restored(story: Story, since: float) -> None:
    """Replace the store by a copy that was begun at that time."""
    details = {"lenient": "restored", "since": since}
    story.add("fault", name="restore", state="begin", target=HOST, details=details)
    story.add("fault", name="restore", state="end", target=HOST, details={})


def test_a_restored_store_may_lack_what_is_later_than_the_copy():
    story = good()
    since = len(story.entries) + 1
    story.build("c-6", document=claim("c-6", (6, 7), pci=[], revision=10))
    story.call("release_claim", {"claim_uuid": MOVED}, "r-5", reply=None)
    restored(story, since)
    story.list_claims()
    assert story.violations() == []


def test_a_guest_whose_claim_a_restored_store_lacks_keeps_its_allocation():
    story = good()
    allocations = story.observed("placement")[NODE]["allocations"]
    allocations["o-9"] = {"resources": {"VCPU": 1, "MEMORY_MB": 128}}
    (without,) = story.violations()
    assert "consumer o-9 has" in without.message
    restored(story, since=0)
    assert story.violations() == []


def test_a_restored_store_has_what_is_older_than_the_copy_and_gives_no_unit_twice():
    story = good()
    restored(story, since=len(story.entries))
    story.list_claims(story.without(ACTIVE))
    story.build("c-6", document=claim("c-6", (6, 7), pci=[], revision=12))
    story.build("c-7", document=claim("c-7", (7, 8), pci=[], revision=13))
    found = " ".join(each.message for each in story.violations())
    assert f"claim {ACTIVE} was granted, and is missing" in found
    assert "PCPU 7 was held by claim c-6 and by claim c-7" in found


def test_a_repeated_call_may_be_granted_anew_if_a_restored_store_lacks_it():
    story = good()
    since = len(story.entries) + 1
    story.build("c-6", document=claim("c-6", (6, 7), pci=[], revision=10))
    restored(story, since)
    story.build("c-6", document=claim("c-6", (8, 9), pci=[], revision=11))
    assert story.violations() == []
    story.build("c-7", document=claim("c-7", (9, 10), pci=[], revision=12))
    story.build("c-6", document=claim("c-6", (8, 10), pci=[], revision=13))
    found = " ".join(each.message for each in story.violations())
    assert "PCPU 9 was held by claim c-6 and by claim c-7" in found
    assert "claim c-6 was granted with other units: PCPU 10, PCPU 9" in found
