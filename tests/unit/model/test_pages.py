"""Page sizes and requests for them, and libvirt's units."""

import pytest

from rtagent.model.units import LIBVIRT_UNITS, BadPageSize, candidates, parse_size


@pytest.mark.parametrize(
    ("text", "kib"),
    [("2048", 2048), ("2MB", 2048), ("2MiB", 2048), ("2Mb", 256), ("4096B", 4), (".5MB", 512)],
)
def test_size_is_parsed_to_kib(text, kib):
    assert parse_size(text) == kib


@pytest.mark.parametrize(
    "text",
    [
        *["2M", "2kB", "2 MB", "0MB", "-2MB", "2Kb1", "", "1e3", "1000B"],
        *["2147483648", "9" * 5000 + "GB"],
    ],
    ids=lambda text: text[:12],
)
def test_invalid_size_is_refused(text):
    with pytest.raises(BadPageSize, match=r"size|whole KiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("request_", "sizes"),
    [("small", (4,)), ("large", (1048576, 2048)), ("any", (1048576, 2048, 4)), (2048, (2048,))],
)
def test_candidates_are_the_matching_sizes_largest_first(request_, sizes):
    assert candidates(request_, [4, 1048576, 2048]) == sizes
    assert candidates(request_, [64]) == ((64,) if request_ in ("small", "any") else ())


@pytest.mark.parametrize(
    ("unit", "size"),
    [("b", 1), ("byte", 1), ("k", 1024), ("kib", 1024), ("kb", 1000), ("mb", 10**6), ("t", 2**40)],
)
def test_libvirt_units_are_binary_unless_written_in_si_form(unit, size):
    assert LIBVIRT_UNITS[unit] == size
