"""Tables of published figures, and their plots."""

import re
from pathlib import Path

import msgspec
import pytest
from docutils import nodes
from docutils.core import publish_doctree
from lxml import etree

from benchmarks.figure import Figure
from measures import published

ROOT = Path(__file__).parents[3]
FILES = ("benchmarks/published.json", "doc/source/admin/fleets.json")
TABLES = {
    (file, name): table for file in FILES for name, table in published.read(ROOT / file).items()
}


def texts(svg):
    return [each.text for each in etree.fromstring(svg).iter("{*}text")]


def test_the_page_of_the_benchmarks_has_the_published_figures_and_their_plots():
    page = (published.BENCHMARKS / "README.rst").read_text()
    tables = published.read(published.BENCHMARKS / "published.json")
    assert published.readme(page, tables) == page
    drawn = {file.stem: file.read_text() for file in (published.BENCHMARKS / "plots").iterdir()}
    assert drawn == {name: published.plot(table) for name, table in tables.items()}
    shown = re.findall(r"^\.\. published: (.*)$", page, re.MULTILINE)
    assert shown == list(tables)


@pytest.mark.parametrize("table", TABLES.values(), ids=map(str, TABLES))
def test_a_table_has_every_figure_as_it_was_published(table):
    text = "\n".join(published.table(table))
    rows = publish_doctree(text).findall(nodes.row)
    cells = [
        [" ".join(entry.astext().split()) for entry in row.findall(nodes.entry)] for row in rows
    ]
    plain = [[re.sub(r"``|\*\*", "", cell) for cell in row] for row in (table.head, *table.rows)]
    assert cells == plain


@pytest.mark.parametrize("table", TABLES.values(), ids=map(str, TABLES))
def test_a_plot_has_a_bar_for_each_figure_as_long_as_it_is_large(table):
    for panel in table.panels:
        tree = etree.fromstring(published.plot(msgspec.structs.replace(table, panels=(panel,))))
        bars = [bar for bar in tree.iter("{*}rect") if bar.get("height") == str(published.BAR - 2)]
        beside = [text.text for text in tree.iter("{*}text") if text.get("font-size") == "11"]
        if not panel.target:
            known = {cell for row in table.rows if row[0] in (panel.rows or row) for cell in row}
            assert set(beside) <= known
        sizes = [float(re.sub("[^0-9.]", "", text)) for text in beside]
        longest = max(sizes + [100.0] * panel.target)
        for bar, size in zip(bars, sizes, strict=True):
            expected = published.BARS * size / longest
            assert float(bar.get("width")) == pytest.approx(max(1, expected), abs=3)


def test_a_run_replaces_the_figures_that_it_has_and_misses_are_marked():
    table = TABLES[FILES[0], "figures"]
    slow = Figure(name="claim_rpc_p50", value=4000.0, unit="ms", target=1.3, floor=2000.0)
    document = {slow.name: slow.as_dict()}
    measured = msgspec.json.decode(msgspec.json.encode(document), type=dict[str, published.Figure])
    [first, *others] = published.with_figures(table, measured).rows
    assert first[2:5] == ("4,000.00 ms", "2,000.00 ms", "2.00")
    assert first[6] == "**no**"
    assert tuple(others) == table.rows[1:]
    plot = published.plot(published.with_figures(table, measured))
    assert texts(plot)[texts(plot).index("claim_rpc_p50") + 1] == "154 %"
    assert plot.count('fill="var(--bad)"') == sum(row[6] == "**no**" for row in table.rows)


def test_a_cell_without_a_number_is_named():
    table = TABLES[FILES[1], "outages"]
    wrong = msgspec.structs.replace(table, rows=(("RabbitMQ restarts", "soon", "1 s", "2 s"),))
    with pytest.raises(ValueError, match="'soon' is no number"):
        published.plot(wrong)
