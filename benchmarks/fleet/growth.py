"""Growth: the same phases on fleets of several sizes, to see what grows with the fleet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from benchmarks.fleet.measured import Curves, Measurements, Phase

#: Hosts of the fleets, as far as they are not larger than the one that is asked for.
SIZES = (10, 100, 300, 1000)

Line = list[tuple[float, float]]


def sizes(largest: int) -> Sequence[int]:
    """Return the sizes of the fleets: the last one is the largest."""
    return [*(size for size in SIZES if size < largest), largest]


def growth(runs: Sequence[Measurements]) -> Phase:
    """Draw each value against the number of hosts, those of one phase and one unit together."""
    lines: Mapping[tuple[str, str], dict[str, Line]] = defaultdict(dict)
    for run in runs:
        for phase in run.phases:
            for value in phase.values:
                line = lines[phase.name, value.unit].setdefault(value.name, [])
                line.append((float(run.hosts), value.value))
    curves = tuple(
        Curves(title=phase, x="hosts", y=unit, lines=dict(found))
        for (phase, unit), found in lines.items()
    )
    listed = ", ".join(str(run.hosts) for run in runs)
    return Phase(name="growth", what=f"the same with fleets of {listed} hosts", curves=curves)
