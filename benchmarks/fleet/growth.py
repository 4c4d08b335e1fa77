"""Growth: the same phases on fleets of several sizes, to see what grows with the fleet."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import linear_regression

from benchmarks.fleet.measured import Comparison, Curves, Measurements, Phase

#: Hosts of the fleets, as far as they are not larger than the one that is asked for.
SIZES = (10, 100, 300, 1000)
#: Which power of the number of hosts a value grows with, at least, and what is said of it then.
GROWTHS = (
    (1.25, "faster than the fleet"),
    (0.75, "with the fleet"),
    (0.25, "slower than the fleet"),
    (-0.25, "no"),
    (-math.inf, "it falls"),
)

Line = list[tuple[float, float]]
#: The name of a phase, the unit and the name of a value.
Key = tuple[str, str, str]


def sizes(largest: int) -> Sequence[int]:
    """Return the sizes of the fleets: the last one is the largest."""
    return [*(size for size in SIZES if size < largest), largest]


def growth(runs: Sequence[Measurements]) -> Phase:
    """Draw each value against the number of hosts, those of one phase and one unit together."""
    lines = _lines(runs)
    drawn: Mapping[tuple[str, str], dict[str, Line]] = defaultdict(dict)
    for (phase, unit, name), line in lines.items():
        drawn[phase, unit][name] = line
    hosts = [run.hosts for run in runs]
    return Phase(
        name="growth",
        what=f"the same with fleets of {', '.join(map(str, hosts))} hosts",
        curves=tuple(
            Curves(title=phase, x="hosts", y=unit, lines=dict(found))
            for (phase, unit), found in drawn.items()
        ),
        comparison=Comparison(
            columns=("phase", "value", "unit", *(f"{number} hosts" for number in hosts), "grows"),
            rows=tuple(_row(key, line, hosts) for key, line in lines.items()),
        ),
    )


def _lines(runs: Sequence[Measurements]) -> Mapping[Key, Line]:
    lines: Mapping[Key, Line] = defaultdict(list)
    for run in runs:
        for phase in run.phases:
            for value in phase.values:
                lines[phase.name, value.unit, value.name].append((float(run.hosts), value.value))
    return lines


def _row(key: Key, line: Line, hosts: Sequence[int]) -> tuple[str, ...]:
    (phase, unit, name), found = key, dict(line)
    texts = (f"{found[number]:.4g}" if number in found else "" for number in hosts)
    return (phase, name, unit, *texts, _grows(line))


def _grows(line: Line) -> str:
    """Return how a value grows with the fleet, by the slope of its logarithms; "": unknown."""
    points = [(math.log(x), math.log(y)) for x, y in line if y > 0]
    if len({x for x, _ in points}) < 2:
        return ""
    slope = linear_regression(*zip(*points, strict=True)).slope
    return next(text for least, text in GROWTHS if slope >= least)
