"""The badges of owners: unique codes, and no change while an owner is known."""

from rtagent.api.page.owners import HUES, PATTERNS, Badges, badge


def test_every_owner_has_a_code_of_its_own():
    badges = Badges().of(str(number) for number in range(1000))
    assert len({each.code for each in badges.values()}) == 1000


def test_the_first_owners_have_different_hues_and_the_next_ones_other_patterns():
    styles = [badge(number).style for number in range(HUES * PATTERNS)]
    assert len(set(styles)) == HUES * PATTERNS
    assert len({style.split()[1] for style in styles[:HUES]}) == HUES
    assert {style.split()[2] for style in styles[:HUES]} == {"p0"}


def test_an_owner_keeps_its_mark_when_others_come_and_go():
    badges = Badges()
    first = badges.of(["a", "b", "c"])
    assert badges.of(["c", "d", "a"])["a"] == first["a"]
    after = badges.of(["d", "c", "e"])
    assert after["c"] == first["c"]
    assert after["d"] == first["b"]  # the lowest free one
    assert len({each.code for each in after.values()}) == 3
