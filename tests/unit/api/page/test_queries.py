"""The parts of a table, and the links to them."""

from rtagent.api.page.queries import PageQuery


def test_a_part_of_a_table_has_its_rows_and_links_to_its_neighbours():
    rows = list(range(25))
    first, last, beyond = (
        PageQuery("/page", query, {"from"}).part(rows, 10)
        for query in ({}, {"from": "20"}, {"from": "900"})
    )
    assert (first["rows"], first["before"], first["after"]) == (rows[:10], "", "/page?from=10")
    assert (last["rows"], last["before"], last["after"]) == (rows[20:], "/page?from=10", "")
    assert (last["start"], last["found"]) == (20, 25)
    assert beyond == last
