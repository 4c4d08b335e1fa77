"""Unit conversions."""

from decimal import Decimal

import pytest

from rtagent.model.units import LIBVIRT_UNITS, parse_iec, round_up


@pytest.mark.parametrize(
    ("quantity", "unit", "units"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2), (-1, 4, 0)]
)
def test_round_up_counts_the_units_that_hold_an_quantity(quantity, unit, units):
    assert round_up(quantity, unit) == units


@pytest.mark.parametrize(
    ("unit", "size"),
    [("b", 1), ("byte", 1), ("k", 1024), ("kib", 1024), ("kb", 1000), ("mb", 10**6), ("t", 2**40)],
)
def test_libvirt_units_are_binary_unless_written_in_si_form(unit, size):
    assert LIBVIRT_UNITS[unit] == size


@pytest.mark.parametrize(
    ("text", "kib"), [("2MB", 2048), ("2MiB", 2048), ("8Kb", 1), (".5MB", 512), ("1b", "1/8192")]
)
def test_iec_sizes_are_read_as_kib(text, kib):
    whole, _, part = str(kib).partition("/")
    assert parse_iec(text) == Decimal(whole) / Decimal(part or 1)


@pytest.mark.parametrize("text", ["", "2", "2M", "2kB", "MB", "2 MB"])
def test_text_without_number_and_unit_is_not_an_iec_size(text):
    assert parse_iec(text) is None
