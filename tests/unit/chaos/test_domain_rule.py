"""The checker: domains that are lost, run on two hosts, or share a device, are found."""

from typing import Any

import pytest

from tests.chaos.checker.judge import judge
from tests.unit.chaos.chaos_histories import Story, claim, run_of

ONE, TWO = "host-1", "host-2"
GPU, VF, MDEV = "0000:08:00.0", "0000:20:02.0", "mdev-1"
#: What is observed on each host.
SEEN = dict[str, list[dict[str, Any]]]


def domain(uuid: str, **fields: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"devices": [], "mdevs": [], "cpusets": []}
    return {"uuid": uuid, "active": True, "vcpus": 2, "memory_mb": 512, **empty, **fields}


def seen() -> SEEN:
    """Return what a good run leaves: two guests, one that has moved, and a foreign domain."""
    first = [domain("o-1", devices=[GPU]), domain("o-2", devices=[VF], mdevs=[MDEV]), domain("o-9")]
    return {ONE: first, TWO: [domain("o-3")]}


def violations(observed: SEEN, *later: tuple[str, str, str]) -> list[str]:
    """Return what the checker says of domains. :param later: action, host and uuid of a caller."""
    story = Story()
    actions = [
        *(("run", ONE, "o-1"), ("run", ONE, "o-2"), ("run", ONE, "o-9"), ("run", ONE, "o-3")),
        *(("remove", ONE, "o-3"), ("run", TWO, "o-3"), ("run", ONE, "o-4"), ("remove", ONE, "o-4")),
    ]
    for action, host, uuid in (*actions, *later):
        its = uuid.replace("o", "c") if action == "run" and uuid != "o-9" else ""
        story.add("domain", action=action, host=host, uuid=uuid, claim=its)
    story.add("quiet")
    claims = [claim("c-1", state="active"), claim("c-2", state="active")]
    story.observe("claims", {"claims": claims})
    for host, domains in observed.items():
        story.observe("domains", domains, host)
    run = run_of(story.entries)
    found = [each for each in judge(run, bound=100) if "domain" in each.promise]
    assert all(each.lines for each in found)
    return [each.message for each in found]


def lost(observed: SEEN) -> None:
    del observed[ONE][0]


def shut_off(observed: SEEN) -> None:
    observed[ONE][1]["active"] = False


def foreign_lost(observed: SEEN) -> None:
    del observed[ONE][2]


def back(observed: SEEN) -> None:
    observed[ONE].append(domain("o-4"))


def twice(observed: SEEN) -> None:
    observed[ONE].append(domain("o-3"))


def device_twice(observed: SEEN) -> None:
    observed[ONE][1]["devices"].append(GPU)


def mdev_twice(observed: SEEN) -> None:
    observed[ONE][0]["mdevs"].append(MDEV)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lost, f"{ONE}: domain o-1 of claim c-1 was started, and does not run"),
        (shut_off, f"{ONE}: domain o-2 of claim c-2 was started, and does not run"),
        (foreign_lost, f"{ONE}: domain o-9 was started, and does not run"),
        (back, f"{ONE}: domain o-4 was removed, and runs"),
        (twice, f"domain o-3 runs on {ONE} and on {TWO}"),
        (device_twice, f"{ONE}: domains o-1 and o-2 both have device {GPU}"),
        (mdev_twice, f"{ONE}: domains o-1 and o-2 both have device {MDEV}"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_domain_that_is_not_as_it_was_left(spoil, message):
    observed = seen()
    spoil(observed)
    assert message in violations(observed)


def test_domains_as_they_were_left_are_no_violation():
    assert violations(seen()) == []


def test_the_last_action_counts():
    observed = seen()
    lost(observed)
    assert violations(observed, ("remove", ONE, "o-1")) == []


def test_a_device_of_a_domain_without_a_claim_is_no_violation_of_the_agent():
    observed = seen()
    observed[ONE][2]["devices"] = [GPU]
    assert violations(observed) == []
