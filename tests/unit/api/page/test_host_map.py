"""The host map's HTML: every state of a CPU, a device and an owner."""

import pytest
from msgspec.structs import replace

from rtagent.api.page.cells import WORDS
from tests.support.api_states import empty, moved, populated
from tests.support.device_owners import devices_in_every_state
from tests.support.map_documents import check_map, page
from tests.support.numa_map import pinned_host


def text(element):
    return " ".join(" ".join(element.itertext()).split())


@pytest.mark.parametrize(
    "state",
    [
        populated(),
        empty(),
        replace(empty(), topology=None),
        pinned_host(),
        replace(pinned_host(), topology=None),
        devices_in_every_state(),
        moved().state,
    ],
    ids=["populated", "empty", "unobserved", "pinned", "claims-unobserved", "devices", "moves"],
)
def test_the_map_shows_what_the_documents_show(state):
    check_map(state)


def test_every_use_of_a_cpu_has_its_own_style_and_words():
    tree = page(pinned_host())
    legend = [text(each) for each in tree.xpath("//*[@class='panel legend']//li")]
    assert all(map(str.endswith, legend, WORDS.values()))
    styles = {each.get("class").split()[1] for each in tree.xpath("//a[contains(@class, 'cpu ')]")}
    assert styles == set(WORDS)


def test_drift_and_foreign_domains_are_flagged():
    tree = page(populated())
    drifting, building, orphan = map(text, tree.xpath("//tr[@data-uuid]"))
    assert "drift" in drifting
    assert "drift" not in building
    assert "no claim" in orphan
    assert "1 domain without a claim" in text(tree.xpath("//*[@class='counts']")[0])
