"""Tables of published figures with their plots: ``python -m measures.published [FIGURES]``.

The figures are in JSON, as text with units. The directive ``published`` of the documentation shows
a table of ``doc/source/admin/fleets.json`` behind its plot. This program writes those of
``benchmarks/published.json`` into ``benchmarks/README.rst`` and ``benchmarks/plots``, because a
code forge runs no directive. FIGURES is a file that ``tools/bench --json`` has written: its figures
replace those of the table first.

A document has a `Published` for each name of a table.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import msgspec

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
_NUMBER = re.compile(r"-?[0-9][0-9,]*(\.[0-9]+)?")
_TARGET = re.compile(r"at (?P<bound>most|least) (?P<number>[0-9.]+) (?P<of>x the floor)?")
_MARK = re.compile(r"(?<=\.\. published: )(?P<name>\S+)\n.*?(?=\.\. published end)", re.DOTALL)

#: Sizes in units of the picture: its width, the texts on the left, and the bars.
WIDTH, LABEL, BARS = 760, 250, 430
BAR, GAP, LINE = 13, 8, 14
#: The opacity of the bars of each column, which are of one colour: the later, the stronger.
OPACITY = {1: (0.85,), 2: (0.45, 0.9), 3: (0.35, 0.6, 0.95), 4: (0.3, 0.5, 0.7, 0.95)}
#: A page gives its own colours to a picture that is a part of it. A file has two sets of them.
OF_THE_PAGE = (
    ' style="max-width: 100%; height: auto; --ink: currentColor; --bar: var(--color-brand-primary);'
    ' --bad: var(--color-problematic)"'
)
OF_THE_FILE = """
<style>
  svg { --ink: #14212b; --bar: #0b6580; --bad: #a6192e }
  @media (prefers-color-scheme: dark) { svg { --ink: #e3ebf1; --bar: #6cc4d8; --bad: #ff8a95 } }
</style>"""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a plot, with an axis of its own.

    :ivar rows: the first cells of the rows that it shows; empty: of all. :ivar columns: the heads
        of the columns; empty: of all. :ivar target: it shows how well figures meet their targets.
    """

    title: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    target: bool = False


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A table, whose first column has the names of the rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    panels: tuple[Panel, ...]
    widths: tuple[int, ...] = ()


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What ``tools/bench --json`` writes of a figure."""

    value: float
    unit: str
    floor: float | None
    ratio: float | None
    met: bool


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The bars of a row. :ivar texts: beside them. :ivar bad: they miss a target."""

    name: str
    values: tuple[float, ...]
    texts: tuple[str, ...]
    bad: bool = False


def read(file: Path) -> dict[str, Published]:
    """Return the tables of a file, by name."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Published])


def table(published: Published) -> Iterator[str]:
    """Yield the lines of the table in reStructuredText."""
    yield ".. list-table::"
    yield "   :header-rows: 1"
    if published.widths:
        yield f"   :widths: {' '.join(map(str, published.widths))}"
    yield ""
    for row in (published.head, *published.rows):
        for number, cell in enumerate(row):
            start = "     - " if number else "   * - "
            lines = textwrap.wrap(cell, 118 - len(start), break_on_hyphens=False) or [""]
            yield f"{start}{lines[0]}".rstrip()
            yield from (f"{' ' * len(start)}{line}" for line in lines[1:])


def plot(published: Published, *, inline: bool = False) -> str:
    """Return the plot as SVG. :param inline: it becomes a part of a page, which has its colours."""
    drawn, height = [], 0
    for panel in published.panels:
        columns = [head for head in published.head[1:] if head in (panel.columns or published.head)]
        groups = _targets(published) if panel.target else _groups(published, panel, columns)
        drawn.append(f'<g transform="translate(0 {height})">')
        height += _draw(panel, columns if not panel.target else [], list(groups), drawn) + 2 * GAP
        drawn.append("</g>")
    titles = "; ".join(panel.title for panel in published.panels)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            f' width="{WIDTH}" height="{height}" role="img"'
            f' aria-label="{escape(titles)}. The table has the numbers."'
            f"{OF_THE_PAGE if inline else ''}>{'' if inline else OF_THE_FILE}",
            '<g font-family="system-ui, sans-serif" font-size="12" fill="var(--ink)">',
            *drawn,
            "</g>",
            "</svg>",
            "",
        )
    )


def _groups(published: Published, panel: Panel, columns: Sequence[str]) -> Iterator[Group]:
    """Yield the rows of a panel. :raises ValueError: a cell has no number."""
    places = [published.head.index(column) for column in columns]
    for row in published.rows:
        if row[0] in (panel.rows or [row[0]]):
            texts = tuple(row[place] for place in places)
            yield Group(name=row[0], values=tuple(map(_number, texts)), texts=texts)


def _targets(published: Published) -> Iterator[Group]:
    """Yield how much of what its target allows each figure takes, in percent."""
    for row in published.rows:
        cells = dict(zip(published.head, row, strict=True))
        target = _TARGET.match(cells["target"])
        if target is None:
            raise ValueError(f"{cells['target']!r} is no target")
        figure = _number(cells["ratio" if target["of"] else "value"])
        allowed = float(target["number"])
        part = (allowed / figure) if target["bound"] == "least" else figure / (allowed or 1)
        yield Group(
            name=row[0], values=(100 * part,), texts=(f"{100 * part:.0f} %",), bad=part > 1.005
        )


def _number(cell: str) -> float:
    found = _NUMBER.match(cell)
    if found is None:
        raise ValueError(f"{cell!r} is no number with a unit")
    return float(found[0].replace(",", ""))


def _draw(panel: Panel, columns: Sequence[str], groups: Sequence[Group], drawn: list[str]) -> int:
    """Draw a panel, and return its height."""
    drawn.append(f'<text y="14" font-size="13" font-weight="600">{escape(panel.title)}</text>')
    top = LINE + GAP + 2
    if len(columns) > 1:
        drawn.extend(_legend(columns, top))
        top += LINE + GAP
    longest = max(max(group.values) for group in groups)
    if panel.target:
        longest = max(longest, 100)
        mark, bottom = LABEL + BARS * 100 / longest, top + sum(map(_height, groups))
        drawn.append(
            f'<path d="M{mark:.1f} {top}V{bottom}" stroke="var(--ink)" stroke-dasharray="3 3"/>'
        )
    for group in groups:
        drawn.extend(_bars(group, top, BARS / longest))
        top += _height(group)
    return top


def _legend(columns: Sequence[str], top: int) -> Iterator[str]:
    left = float(LABEL)
    for column, opacity in zip(columns, OPACITY[len(columns)], strict=True):
        box = f'<rect x="{left}" y="{top}" width="12" height="12" rx="2" fill="var(--bar)"'
        yield f'{box} fill-opacity="{opacity}"/>'
        yield f'<text x="{left + 17}" y="{top + 10}">{escape(column)}</text>'
        left += 40 + 7 * len(column)


def _height(group: Group) -> int:
    return max(BAR * len(group.values), LINE * len(_lines(group.name))) + GAP


def _lines(name: str) -> list[str]:
    return textwrap.wrap(name.replace("``", ""), 38)


def _bars(group: Group, top: int, scale: float) -> Iterator[str]:
    for number, line in enumerate(_lines(group.name)):
        where = f'x="{LABEL - 10}" y="{top + 10 + LINE * number}" text-anchor="end"'
        yield f"<text {where}>{escape(line)}</text>"
    colour = "var(--bad)" if group.bad else "var(--bar)"
    bars = zip(group.values, group.texts, OPACITY[len(group.values)], strict=True)
    for number, (value, text, opacity) in enumerate(bars):
        y, width = top + BAR * number, max(1.0, value * scale)
        size = f'x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR - 2}"'
        yield f'<rect {size} fill="{colour}" fill-opacity="{opacity}"/>'
        yield f'<text x="{LABEL + width + 5:.1f}" y="{y + 10}" font-size="11">{escape(text)}</text>'


def readme(text: str, tables: dict[str, Published]) -> str:
    """Return the text of ``benchmarks/README.rst`` with the plot and the table of each name."""

    def section(found: re.Match[str]) -> str:
        published = tables[found["name"]]
        titles = "; ".join(panel.title for panel in published.panels)
        image = (f".. image:: plots/{found['name']}.svg", f"   :alt: {titles}")
        return "\n".join((found["name"], "", *image, "", *table(published), "", ""))

    return _MARK.sub(section, text)


def with_figures(published: Published, measured: Mapping[str, Figure]) -> Published:
    """Return a table of figures with what was measured in place of what it had."""
    names = (row[0].strip("`") for row in published.rows)
    rows = [
        _measured(row, measured[name]) if name in measured else row
        for name, row in zip(names, published.rows, strict=True)
    ]
    return msgspec.structs.replace(published, rows=tuple(rows))


def _measured(row: Sequence[str], figure: Figure) -> tuple[str, ...]:
    name, what, _, _, _, target, _ = row
    floor = "" if figure.floor is None else f"{figure.floor:,.2f} {figure.unit}"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    met = "yes" if figure.met else "**no**"
    return name, what, f"{figure.value:,.2f} {figure.unit}", floor, ratio, target, met


def main() -> int:
    file, page = BENCHMARKS / "published.json", BENCHMARKS / "README.rst"
    tables = read(file)
    if len(sys.argv) > 1:
        measured = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=dict[str, Figure])
        tables["figures"] = with_figures(tables["figures"], measured)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(tables), indent=2) + b"\n")
    page.write_text(readme(page.read_text(), tables))
    for name, published in tables.items():
        (BENCHMARKS / "plots" / f"{name}.svg").write_text(plot(published))
    return 0


if __name__ == "__main__":
    sys.exit(main())
