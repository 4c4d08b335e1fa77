"""The page of a run: one file, with its drawings in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, select_autoescape

from benchmarks.fleet.measured import Measurements
from benchmarks.fleet.plot import BOTTOM, HEIGHT, LEFT, WIDTH, plot


def page(measured: Measurements, wrong: Sequence[str]) -> str:
    """Return the page. :param wrong: what the census found, in sentences."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    phases = [(phase, [plot(each) for each in phase.curves]) for phase in measured.phases]
    return environment.get_template("page.html").render(
        measured=measured,
        wrong=wrong,
        phases=phases,
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        bottom=BOTTOM,
    )
