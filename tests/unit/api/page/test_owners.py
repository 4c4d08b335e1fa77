"""The rows of the owners, over changes of the host."""

from rtagent.api.page.owners import Owner, OwnerRows, badge
from rtagent.model.usage import NumaUsage, Usage
from tests.support.api_states import claimed, empty, uuid, with_domain


def test_a_row_is_made_again_only_when_its_owner_changes():
    rows = OwnerRows()
    before = claimed(claimed(empty(), 1), 2)
    _, (first, second) = rows.of(before)
    _, (same, also) = rows.of(before)
    assert (same is first, also is second) == (True, True)

    after = with_domain(before, 102, vcpus=9, memory_mb=1024)
    owners, (unchanged, changed) = rows.of(after)
    assert unchanged is first
    assert "drift" in changed
    assert "drift" not in second
    assert owners[uuid(102)].usage.vcpus == 9


def test_a_claim_that_becomes_active_changes_its_row():
    rows = OwnerRows()
    _, (building,) = rows.of(claimed(empty(), 1))
    _, (active,) = rows.of(claimed(empty(), 1, active=True))
    assert ">building<" in building
    assert ">active<" in active


def test_names_link_the_pages_of_claims_that_exist():
    state = claimed(claimed(empty(), 1), 2)
    _, plain = OwnerRows().of(state)
    assert not any("href" in each for each in plain)
    _, (first, tested) = OwnerRows(linked=True).of(state, uuid(102))
    assert f'href="/page/claims/{uuid(1)}"' in first
    assert "href" not in tested


def test_an_owner_has_its_cells_with_the_pages_of_each_size():
    numa = NumaUsage(memory_mb={1: 64, 0: 1026}, pages={(0, 2048): 1, (0, 1048576): 1})
    usage = Usage(numa=numa)
    owner = Owner(uuid=uuid(1), badge=badge(0), claims=(), domain=None, usage=usage, flags=())
    assert owner.cells == ["0: 1 \u00d7 2 MiB", "0: 1 \u00d7 1 GiB", "1"]
