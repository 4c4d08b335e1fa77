"""The rows of the owners, over changes of the host, and their badges."""

from rtagent.api.page.owners import HUES, PATTERNS, Badges, Owner, OwnerRows, badge
from rtagent.model.usage import NumaUsage, Usage
from tests.support.api_states import claimed, empty, uuid, with_domain


def test_every_owner_has_a_code_of_its_own_and_the_first_ones_have_different_styles():
    badges = list(Badges().of(str(number) for number in range(1000)).values())
    assert len({each.code for each in badges}) == 1000
    assert len({each.style for each in badges[: HUES * PATTERNS]}) == HUES * PATTERNS


def test_an_owner_keeps_its_badge_when_others_come_and_go():
    badges = Badges()
    first = badges.of(["a", "b", "c"])
    assert badges.of(["c", "d", "a"])["a"] == first["a"]
    after = badges.of(["d", "c", "e"])
    assert (after["c"], after["d"]) == (first["c"], first["b"])  # the lowest free one
    assert len({each.code for each in after.values()}) == 3


def test_a_row_is_made_again_only_when_its_owner_changes():
    rows = OwnerRows()
    before = claimed(claimed(empty(), 1), 2)
    _, (first, second) = rows.of(before)
    _, (same, also) = rows.of(before)
    assert (same is first, also is second) == (True, True)

    after = with_domain(before, 102, vcpus=9, memory_mb=1024)
    owners, (unchanged, changed) = rows.of(after)
    assert unchanged is first
    assert ("drift" in second, "drift" in changed) == (False, True)
    assert owners[uuid(102)].usage.vcpus == 9


def test_an_owner_has_its_cells_with_the_pages_of_each_size():
    numa = NumaUsage(memory_mb={1: 64, 0: 1026}, pages={(0, 2048): 1, (0, 1048576): 1})
    usage = Usage(numa=numa)
    owner = Owner(uuid=uuid(1), badge=badge(0), claims=(), domain=None, usage=usage, flags=())
    assert owner.cells == ["0: 1 \u00d7 2 MiB", "0: 1 \u00d7 1 GiB", "1"]
