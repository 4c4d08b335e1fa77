"""Text from outside is shown without effect on a terminal, a log or a status line."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtagent.model.printable import printable

#: Controls, formats (direction, no width), surrogates, line and paragraph separators.
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.fixture(scope="module")
def characters():
    """Every character."""
    return [chr(code) for code in range(sys.maxunicode + 1)]


def test_no_character_is_shown_that_affects_a_terminal_or_a_log(characters):
    assert printable("".join(characters)).isprintable()
    assert printable(r"web-1 ü 漢字 🙂 C:\n") == r"web-1 ü 漢字 🙂 C:\n"


def test_what_is_not_shown_can_be_read_back(characters):
    for char in characters:
        if unicodedata.category(char) in UNSAFE:
            assert printable(char).encode().decode("unicode_escape") == char, hex(ord(char))


@given(st.text(), st.integers(min_value=0, max_value=50))
def test_result_is_cut_at_the_limit_and_says_so(text, limit):
    shown, whole = printable(text, limit), printable(text)
    if len(whole) <= limit:
        assert shown == whole
    else:
        assert shown == f"{whole[:limit]}... ({len(text)} characters)"
