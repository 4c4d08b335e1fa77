"""The page of the benchmarks shows the published figures."""

import re

from measures import published


def test_the_page_of_the_benchmarks_has_the_published_figures_and_their_plots():
    page = (published.BENCHMARKS / "README.rst").read_text()
    tables = published.read(published.BENCHMARKS / "published.json")
    assert published.readme(page, tables) == page
    drawn = {file.stem: file.read_text() for file in (published.BENCHMARKS / "plots").iterdir()}
    assert drawn == {name: published.plot(table) for name, table in tables.items()}
    shown = re.findall(r"^\.\. published: (.*)$", page, re.MULTILINE)
    assert shown == list(tables)
