"""Text on pages, and quantities in words."""

import pytest
from markupsafe import Markup

from rtagent.api.page.rendering import LONGEST, megabytes, share, size, visible, web_address


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("Größe \N{SNOWMAN}", "Größe \N{SNOWMAN}"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("bell\x07", r"bell\x07"),
        ("\u202eexe.gnp", r"\u202eexe.gnp"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("lone \ud800", r"lone \ud800"),
        ("x" * 100_000, "x" * LONGEST + "…"),
        (None, ""),
        (7, 7),
        (Markup("<b>\x07</b>"), Markup("<b>\x07</b>")),
    ],
)
def test_what_cannot_be_seen_is_escaped(value, shown):
    assert visible(value) == shown


@pytest.mark.parametrize(
    ("kib", "words"),
    [(0, "0"), (4, "4 KiB"), (2048, "2 MiB"), (1536, "1.5 MiB"), (1 << 40, "1 PiB"),
     (1 << 60, "1048576 PiB"), (-2048, "-2 MiB"), ((130 << 20) + 9, "130 GiB")],
)  # fmt: skip
def test_sizes_have_few_digits(kib, words):
    assert size(kib) == words


def test_sizes_of_the_api_are_in_mb():
    assert megabytes(38400) == "37.5 GiB"


@pytest.mark.parametrize(
    ("part", "whole", "percent"), [(1, 4, 25), (5, 4, 100), (-1, 4, 0), (1, 0, 0)]
)
def test_shares_stay_in_the_bar(part, whole, percent):
    assert share(part, whole) == percent


@pytest.mark.parametrize(
    "text",
    [
        "https://compute1.example:8775/",
        "http://127.0.0.1:8775",
        "HTTPS://[2001:db8::1]:8775/",
        "https://proxy.example/agents/compute-1/",
    ],
)
def test_a_url_of_http_may_be_a_link(text):
    assert web_address(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "compute1.example:8775",
        "//compute1.example/",
        "/page/claims",
        "javascript:alert(1)",
        "java\nscript:alert(1)",
        " https://compute1.example/",
        "https://compute1.example/\n",
        "data:text/html,<script>alert(1)</script>",
        "ftp://compute1.example/",
        "https://",
        "https:///path",
        "https://bank.example@evil.example/",
        "https://evil.example/?next=https://bank.example",
        "https://evil.example/#x",
        "https://evil.example\\@bank.example/",
        'https://evil.example/"onclick="alert(1)',
        "https://evil.example/\u202egnp",
        "https://b\u0430nk.example/",
        "https://compute1.example:123456/",
        "https://" + "x" * LONGEST,
    ],
)
def test_other_text_is_no_link(text):
    assert web_address(text) == ""
