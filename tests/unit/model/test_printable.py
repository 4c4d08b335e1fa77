"""Text from outside is shown without effect on a terminal, a log or a status line."""

import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from rtagent.model.printable import printable

EVERY_CHARACTER = [chr(code) for code in range(sys.maxunicode + 1)]
#: Controls, formats (direction, no width), surrogates, line and paragraph separators.
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_no_character_is_shown_that_affects_a_terminal_or_a_log():
    assert printable("".join(EVERY_CHARACTER)).isprintable()
    assert printable(r"web-1 ü 漢字 🙂 C:\n") == r"web-1 ü 漢字 🙂 C:\n"


def test_what_is_not_shown_can_be_read_back():
    for char in EVERY_CHARACTER:
        if unicodedata.category(char) in UNSAFE:
            assert printable(char).encode().decode("unicode_escape") == char, hex(ord(char))


@given(st.text(), st.integers(min_value=0, max_value=50))
def test_result_is_cut_at_the_limit_and_says_so(text, limit):
    shown, whole = printable(text, limit), printable(text)
    if len(whole) <= limit:
        assert shown == whole
    else:
        assert shown == f"{whole[:limit]}... ({len(text)} characters)"
