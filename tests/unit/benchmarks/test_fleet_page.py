"""The page of tools/fleet, and the curves of growing fleets."""

from typing import Any

from lxml import html

from benchmarks.fleet.growth import growth, sizes
from benchmarks.fleet.measured import Curves, Measurements, Phase, Value
from benchmarks.fleet.page import page
from benchmarks.fleet.plot import HEIGHT, WIDTH, plot


def measured(hosts: int, messages: float) -> Measurements:
    value = Value(name="messages <b>", value=messages, unit="1/min", target=5)
    return Measurements(
        hosts=hosts, machine="2 CPUs", phases=[Phase(name="idle", what="nothing", values=(value,))]
    )


def test_fleets_grow_up_to_the_one_that_is_asked_for():
    assert sizes(1000) == [10, 100, 300, 1000]
    assert sizes(20) == [10, 20]
    assert sizes(10) == [10]


def test_growth_has_a_curve_for_each_value():
    grown = growth([measured(10, 4.0), measured(100, 4.5)])
    assert grown.curves == (
        Curves(title="idle", x="hosts", y="1/min", lines={"messages <b>": [(10, 4.0), (100, 4.5)]}),
    )


def test_growth_names_what_grows_with_the_fleet():
    def run(hosts: int, **values: float) -> Measurements:
        made = tuple(Value(name=name, value=value, unit="s") for name, value in values.items())
        return Measurements(
            hosts=hosts, machine="", phases=[Phase(name="boot", what="", values=made)]
        )

    grown = growth(
        [
            run(10, linear=1.0, flat=5.0, root=1.0, square=1.0, less=9.0, zero=0.0),
            run(1000, linear=90.0, flat=5.5, root=10.0, square=10000.0, less=1.0, once=1.0),
        ]
    )
    assert grown.comparison is not None
    assert grown.comparison.columns == ("phase", "value", "unit", "10 hosts", "1000 hosts", "grows")
    assert grown.comparison.rows[0] == ("boot", "linear", "s", "1", "90", "with the fleet")
    assert {row[1]: row[-1] for row in grown.comparison.rows} == {
        "linear": "with the fleet",
        "flat": "no",
        "root": "slower than the fleet",
        "square": "faster than the fleet",
        "less": "it falls",
        "zero": "",
        "once": "",
    }


def test_curves_are_scaled_to_the_drawing():
    lines = {"a": [(0.0, 0.0), (10.0, 4.0)], "b": [(5.0, 2.0)]}
    drawn = plot(Curves(title="t", x="s", y="1/s", lines=lines))
    points = [
        tuple(map(float, point.split(",")))
        for line in drawn.lines
        for point in line.points.split(" ")
    ]
    assert points[1] == (WIDTH, 0.0)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert [tick.text for tick in drawn.y_ticks] == ["0", "1", "2", "3", "4"]


def test_curves_without_points_are_drawn():
    assert plot(Curves(title="t", x="s", y="1/s", lines={})).lines == ()


def test_the_page_marks_missed_targets_and_differences_and_escapes_names():
    document: Any = html.fromstring(page(measured(10, 9.0), ["host-1: Placement lacks <a>"]))
    assert document.xpath("//tr[@class='missed']/td/text()")[0] == "messages <b>"
    assert document.xpath("//ul/li/text()")[0] == "host-1: Placement lacks <a>"
    met = html.fromstring(page(measured(10, 4.0), []))
    assert not met.xpath("//tr[@class='missed']")


def test_the_page_needs_no_other_file():
    run = measured(10, 4.0)
    run.phases.append(growth([run]))
    text = page(run, [])
    assert "<polyline" in text
    document: Any = html.fromstring(text)
    assert document.xpath("//tr/td[2]/text()")[-1] == "messages <b>"
    assert "http://" not in text and "src=" not in text
