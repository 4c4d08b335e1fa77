"""Plot: curves as the points of an SVG drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from benchmarks.fleet.measured import Curves

Scale = Callable[[float], float]

#: Of the drawing, in its own units; the margins have the numbers of the axes.
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 240, 60, 30
#: Gaps between two numbers of an axis.
TICKS = 4
#: One for each curve, in turn. All differ for eyes that do not see red or green.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


class Line(Struct, frozen=True, kw_only=True):
    """One curve. :ivar points: of an SVG polyline."""

    name: str
    colour: str
    points: str


class Tick(Struct, frozen=True, kw_only=True):
    """A number of an axis, and its place."""

    text: str
    at: float


class Plot(Struct, frozen=True, kw_only=True):
    """A drawing, see page.html."""

    curves: Curves
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def plot(curves: Curves) -> Plot:
    """Scale curves to the drawing. The vertical axis begins at 0."""
    points = [point for line in curves.lines.values() for point in line]
    first = min((x for x, _ in points), default=0.0)
    last = max((x for x, _ in points), default=1.0)
    most = max((y for _, y in points), default=1.0) or 1.0
    width = (last - first) or 1.0

    def across(x: float) -> float:
        return LEFT + (x - first) / width * (WIDTH - LEFT)

    def up(y: float) -> float:
        return (HEIGHT - BOTTOM) * (1 - y / most)

    lines = (
        Line(name=name, colour=COLOURS[place % len(COLOURS)], points=_points(line, across, up))
        for place, (name, line) in enumerate(curves.lines.items())
    )
    return Plot(
        curves=curves,
        lines=tuple(lines),
        x_ticks=tuple(Tick(text=f"{x:.4g}", at=across(x)) for x in _steps(first, last)),
        y_ticks=tuple(Tick(text=f"{y:.3g}", at=up(y)) for y in _steps(0.0, most)),
    )


def _points(line: Sequence[tuple[float, float]], across: Scale, up: Scale) -> str:
    return " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)


def _steps(first: float, last: float) -> Iterator[float]:
    for number in range(TICKS + 1):
        yield first + (last - first) * number / TICKS
