"""The fewest requests, and whose things they touch."""

from msgspec.structs import replace

from rtagent.placement.diff import (
    CreateProvider,
    DeleteProvider,
    PutInventories,
    PutTraits,
    Seen,
    diff,
    drained,
    owned,
)
from tests.unit.placement.values import ROOT, contents, provider, record

NOTHING = contents()
VCPUS = {"VCPU": record(8)}
GONE = replace(provider(), gone=True)


def seen(inventories=None, traits=()):
    return Seen(
        generation=3,
        traits_generation=3,
        inventories=inventories or {},
        traits=frozenset(traits),
    )


def test_a_new_provider_is_marked_before_it_offers_anything():
    wanted = provider(VCPUS, {"A"}, name="cn1")
    assert diff(None, wanted, NOTHING) == (
        CreateProvider(ROOT, "cn1", None),
        PutTraits(ROOT, frozenset({"A"})),
        PutInventories(ROOT, VCPUS),
    )


def test_a_provider_with_nothing_is_created_and_no_more():
    assert diff(None, provider(parent="p"), NOTHING) == (CreateProvider(ROOT, "cn1", "p"),)


def test_nothing_changed_nothing_is_asked():
    assert diff(seen(VCPUS, {"A"}), provider(VCPUS, {"A"}), NOTHING) == ()


def test_only_the_part_that_changed_is_sent():
    wanted = provider(VCPUS, {"A"})
    assert diff(seen(VCPUS), wanted, NOTHING) == (PutTraits(ROOT, frozenset({"A"})),)
    assert diff(seen({}, {"A"}), wanted, NOTHING) == (PutInventories(ROOT, VCPUS),)


def test_what_others_set_is_sent_along():
    there = seen({"CUSTOM_FPGA": record(2)}, {"CUSTOM_GOLD"})
    assert diff(there, provider(VCPUS, {"A"}), NOTHING) == (
        PutTraits(ROOT, frozenset({"A", "CUSTOM_GOLD"})),
        PutInventories(ROOT, {**VCPUS, "CUSTOM_FPGA": record(2)}),
    )


def test_what_was_ours_is_withdrawn():
    there = seen({**VCPUS, "CUSTOM_OURS": record(1)}, {"A", "CUSTOM_OURS", "CUSTOM_GOLD"})
    ours = contents({"VCPU", "CUSTOM_OURS"}, {"A", "CUSTOM_OURS"})
    assert diff(there, provider(VCPUS, {"A"}), ours) == (
        PutTraits(ROOT, frozenset({"A", "CUSTOM_GOLD"})),
        PutInventories(ROOT, VCPUS),
    )


def test_what_is_ruled_is_withdrawn_whoever_set_it():
    there = seen({"VCPU": record(8), "PCPU": record(4)}, {"COMPUTE_STATUS_DISABLED"})
    wanted = provider(VCPUS, ruled=contents({"PCPU"}, {"COMPUTE_STATUS_DISABLED"}))
    assert diff(there, wanted, NOTHING) == (
        PutTraits(ROOT, frozenset()),
        PutInventories(ROOT, VCPUS),
    )


def test_what_is_ruled_and_true_stays():
    wanted = provider(VCPUS, {"A"}, ruled=contents({"VCPU"}, {"A"}))
    assert diff(seen(VCPUS, {"A"}), wanted, NOTHING) == ()


def test_a_standard_trait_that_is_true_is_ours_and_a_custom_one_that_was_there_is_not():
    wanted = provider(VCPUS, {"HW_CPU_X86_AVX", "CUSTOM_THEIRS", "CUSTOM_OURS"})
    there = seen({}, {"HW_CPU_X86_AVX", "CUSTOM_THEIRS"})
    assert owned(there, wanted, NOTHING) == contents({"VCPU"}, {"HW_CPU_X86_AVX", "CUSTOM_OURS"})


def test_a_custom_trait_stays_ours():
    wanted, ours = provider({}, {"CUSTOM_OURS"}), contents(traits={"CUSTOM_OURS"})
    assert owned(seen({}, {"CUSTOM_OURS"}), wanted, ours) == ours


def test_an_inventory_in_use_is_kept_with_all_of_it_reserved():
    there = seen({"VCPU": record(4), "PCPU": record(4, reserved=1)})
    assert drained(PutInventories(ROOT, VCPUS), there) == PutInventories(
        ROOT, {"VCPU": record(8), "PCPU": record(4, reserved=4)}
    )


def test_a_provider_that_is_gone_is_deleted_when_all_of_it_is_ours():
    ours = contents({"VCPU"}, {"A"})
    assert diff(seen(VCPUS, {"A"}), GONE, ours) == (DeleteProvider(ROOT),)
    assert diff(seen(), GONE, ours) == (DeleteProvider(ROOT),)
    assert diff(None, GONE, ours) == ()


def test_it_is_left_bare_when_others_have_set_something_there():
    ours = contents({"VCPU"}, {"A"})
    assert diff(seen(VCPUS, {"A", "CUSTOM_GOLD"}), GONE, ours) == (
        PutTraits(ROOT, frozenset({"CUSTOM_GOLD"})),
        PutInventories(ROOT, {}),
    )
    assert diff(seen({"CUSTOM_FPGA": record(1)}), GONE, ours) == ()
