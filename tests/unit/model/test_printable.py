"""Text from outside is shown without effect on a terminal, a log or a status line."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtagent.model.printable import printable

EVERY_CHARACTER = [chr(code) for code in range(sys.maxunicode + 1)]
#: Controls, formats (direction, no width), surrogates, line and paragraph separators.
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_no_character_is_shown_that_affects_a_terminal_or_a_log():
    assert printable("".join(EVERY_CHARACTER)).isprintable()


def test_what_is_not_shown_can_be_read_back():
    for char in EVERY_CHARACTER:
        if unicodedata.category(char) in UNSAFE:
            assert printable(char).encode().decode("unicode_escape") == char, hex(ord(char))


@given(st.text())
def test_printable_text_is_unchanged_and_the_result_is_stable(text):
    shown = printable(text)
    assert printable(shown) == shown
    assert shown == text or not text.isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web-1 ü 漢字 🙂", "web-1 ü 漢字 🙂"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\r\n2030-01-01 ERROR b", r"a\r\n2030-01-01 ERROR b"),
        ("\x9b31m \u202etxt.exe \u2066x\u2069", r"\x9b31m \u202etxt.exe \u2066x\u2069"),
        ("\ud800 \x00 \x7f \u2028", r"\ud800 \x00 \x7f \u2028"),
        (r"C:\n", r"C:\n"),
    ],
)
def test_examples(text, shown):
    assert printable(text) == shown


@given(st.text(), st.integers(min_value=0, max_value=50))
def test_result_is_cut_at_the_limit_and_says_so(text, limit):
    shown, whole = printable(text, limit), printable(text)
    if len(whole) <= limit:
        assert shown == whole
    else:
        assert shown == f"{whole[:limit]}... ({len(text)} characters)"
