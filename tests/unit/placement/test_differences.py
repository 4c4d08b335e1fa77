"""The requests of a diff, told item by item."""

from msgspec.structs import replace

from rtagent.placement.diff import Seen
from rtagent.placement.differences import ABSENT, PRESENT, Difference, differences
from tests.unit.placement.values import contents, provider, record

WANTED = provider({"VCPU": record(8)}, {"A"}, name="cn1")


def told(*items):
    return tuple(
        Difference(provider="cn1", kind=kind, item=item, placement=had, agent=has)
        for kind, item, had, has in items
    )


def seen(inventories, traits):
    return Seen(
        generation=1, traits_generation=1, inventories=inventories, traits=frozenset(traits)
    )


def test_a_provider_that_is_not_there_lacks_everything():
    assert differences(None, WANTED, contents()) == told(
        ("provider", "cn1", ABSENT, PRESENT),
        ("trait", "A", ABSENT, PRESENT),
        ("inventory", "VCPU", ABSENT, record(8)),
    )


def test_what_is_ours_no_more_is_to_go_and_what_is_others_is_not_told():
    there = seen(
        {"VCPU": record(4), "CUSTOM_OURS": record(1), "CUSTOM_THEIRS": record(2)},
        {"A", "CUSTOM_OURS", "CUSTOM_THEIRS"},
    )
    ours = contents({"CUSTOM_OURS"}, {"CUSTOM_OURS"})
    assert differences(there, WANTED, ours) == told(
        ("trait", "CUSTOM_OURS", PRESENT, ABSENT),
        ("inventory", "CUSTOM_OURS", record(1), ABSENT),
        ("inventory", "VCPU", record(4), record(8)),
    )


def test_what_is_the_same_is_not_told():
    assert differences(seen({"VCPU": record(8)}, {"A"}), WANTED, contents()) == ()


def test_a_provider_that_is_gone_is_there_still():
    ours = contents({"VCPU"}, {"A"})
    left = replace(provider(name="cn1"), gone=True)
    assert differences(seen({"VCPU": record(8)}, {"A"}), left, ours) == told(
        ("provider", "cn1", PRESENT, ABSENT)
    )
