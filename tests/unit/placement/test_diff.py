"""The requests for one provider, which contents they preserve, and the differences."""

from msgspec.structs import replace

from rtagent.placement.diff import (
    ABSENT,
    PRESENT,
    DeleteProvider,
    Difference,
    PutInventories,
    PutTraits,
    diff,
    differences,
    drained,
    owned_after,
    remaining,
)
from rtagent.placement.provider import CurrentProvider
from tests.unit.placement.values import ROOT, contents, provider, record

NOTHING = contents()
VCPUS = {"VCPU": record(8)}
OBSOLETE = replace(provider(), obsolete=True)


def current(inventories=None, traits=()):
    return CurrentProvider(
        generation=3, traits_generation=3, inventories=inventories or {}, traits=frozenset(traits)
    )


def test_unwanted_exclusive_contents_of_other_writers_are_removed():
    present = current({"VCPU": record(8), "PCPU": record(4)}, {"COMPUTE_STATUS_DISABLED"})
    wanted = provider(VCPUS, exclusive=contents({"PCPU"}, {"COMPUTE_STATUS_DISABLED"}))
    changes = diff(present, wanted, NOTHING)
    assert changes == (PutTraits(ROOT, frozenset()), PutInventories(ROOT, VCPUS))


def test_an_owned_custom_trait_remains_owned():
    wanted, own = provider({}, {"CUSTOM_OWN"}), contents(traits={"CUSTOM_OWN"})
    assert owned_after(current({}, {"CUSTOM_OWN"}), wanted, own) == own


def test_present_standard_traits_become_owned_and_present_custom_ones_do_not():
    wanted = provider(VCPUS, {"HW_CPU_X86_AVX", "CUSTOM_FOREIGN", "CUSTOM_OWN"})
    present = current({}, {"HW_CPU_X86_AVX", "CUSTOM_FOREIGN"})
    expected = contents({"VCPU"}, {"HW_CPU_X86_AVX", "CUSTOM_OWN"})
    assert owned_after(present, wanted, NOTHING) == expected


def test_a_drained_inventory_is_kept_and_fully_reserved():
    present = current({"VCPU": record(4), "PCPU": record(4, reserved=1), "VGPU": record(1)})
    assert drained(PutInventories(ROOT, VCPUS), present, {"VCPU", "PCPU"}) == PutInventories(
        ROOT, {"VCPU": record(8), "PCPU": record(4, reserved=4)}
    )


def test_what_is_left_of_the_owned_contents_remains_owned():
    own = contents({"VCPU", "VGPU"}, {"A", "B"})
    assert remaining(current(VCPUS, {"A", "C"}), own) == contents({"VCPU"}, {"A"})


def test_an_obsolete_provider_with_owned_contents_is_deleted():
    own = contents({"VCPU"}, {"A"})
    assert diff(current(VCPUS, {"A"}), OBSOLETE, own) == (DeleteProvider(ROOT),)
    assert diff(current(), OBSOLETE, own) == (DeleteProvider(ROOT),)
    assert diff(None, OBSOLETE, own) == ()


def test_an_obsolete_provider_keeps_contents_of_other_writers():
    own = contents({"VCPU"}, {"A"})
    changes = diff(current(VCPUS, {"A", "CUSTOM_GOLD"}), OBSOLETE, own)
    assert changes == (PutTraits(ROOT, frozenset({"CUSTOM_GOLD"})), PutInventories(ROOT, {}))
    assert diff(current({"CUSTOM_FPGA": record(1)}), OBSOLETE, own) == ()


# -- differences ----------------------------------------------------------------------------------

WANTED = provider({"VCPU": record(8)}, {"A"}, name="cn1")


def listed(*items):
    return tuple(
        Difference(provider="cn1", kind=kind, item=item, placement=before, agent=after)
        for kind, item, before, after in items
    )


def test_everything_differs_for_a_missing_provider():
    root, trait = ("provider", "cn1", ABSENT, PRESENT), ("trait", "A", ABSENT, PRESENT)
    vcpus = ("inventory", "VCPU", ABSENT, record(8))
    assert differences(None, WANTED, contents()) == listed(root, trait, vcpus)


def test_owned_contents_differ_and_those_of_other_writers_do_not():
    numbers = {"VCPU": record(4), "CUSTOM_OWN": record(1), "CUSTOM_FOREIGN": record(2)}
    present = current(numbers, {"A", "CUSTOM_OWN", "CUSTOM_FOREIGN"})
    own = contents({"CUSTOM_OWN"}, {"CUSTOM_OWN"})
    assert differences(present, WANTED, own) == listed(
        ("trait", "CUSTOM_OWN", PRESENT, ABSENT),
        ("inventory", "CUSTOM_OWN", record(1), ABSENT),
        ("inventory", "VCPU", record(4), record(8)),
    )


def test_an_obsolete_provider_is_a_difference():
    own = contents({"VCPU"}, {"A"})
    obsolete = replace(provider(name="cn1"), obsolete=True)
    assert differences(current({"VCPU": record(8)}, {"A"}), obsolete, own) == listed(
        ("provider", "cn1", PRESENT, ABSENT)
    )
