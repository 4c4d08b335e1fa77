"""Page sizes and requests for them."""

import pytest

from rtagent.model.pages import BadPageSize, candidates, format_size, parse_request, parse_size


@pytest.mark.parametrize(
    ("text", "kib"),
    [
        ("4", 4),
        ("2048", 2048),
        ("2MB", 2048),
        ("2MiB", 2048),
        ("2Mb", 256),
        ("2Mbit", 256),
        ("1GB", 1048576),
        ("1GiB", 1048576),
        ("64KB", 64),
        ("64KiB", 64),
        ("4096B", 4),
        ("1.5GB", 1572864),
        (".5MB", 512),
    ],
)
def test_size_is_parsed_to_kib(text, kib):
    assert parse_size(text) == kib


@pytest.mark.parametrize(
    "text",
    [
        *["2M", "2G", "2kB", "2 MB", "0", "0MB", "-2MB", "1B", "2Kb1", "", "big", "1e3", "1000B"],
        *["2147483648", "2TiB", "9" * 5000, "9" * 5000 + "GB"],
    ],
    ids=lambda text: text[:12],
)
def test_invalid_size_is_refused(text):
    with pytest.raises(BadPageSize, match=r"size|whole KiB"):
        parse_size(text)


@pytest.mark.parametrize("word", ["small", "large", "any"])
def test_small_large_and_any_are_requests(word):
    assert parse_request(word) == word


@pytest.mark.parametrize(
    ("request_", "sizes"),
    [
        ("small", (4,)),
        ("large", (1048576, 2048)),
        ("any", (1048576, 2048, 4)),
        (2048, (2048,)),
        (16, ()),
    ],
)
def test_candidates_are_the_matching_sizes_largest_first(request_, sizes):
    assert candidates(request_, [4, 1048576, 2048]) == sizes


def test_single_size_is_small_and_never_large():
    assert candidates("small", [64]) == (64,)
    assert candidates("large", [64]) == ()


@pytest.mark.parametrize(
    ("kib", "text"), [(4, "4KiB"), (2048, "2MiB"), (1048576, "1GiB"), (16384, "16MiB")]
)
def test_size_is_formatted_with_its_largest_unit(kib, text):
    assert format_size(kib) == text
