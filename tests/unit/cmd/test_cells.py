"""Cells of every output format, with any text."""

import csv
import io
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtagent.cmd.output import KeyValues, Lines, OrEmpty, plain_xml, safe
from rtagent.model.printable import printable

TEXT = "=\x1b[31m\n\u202e[red]"
SHOWN = r"=\x1b[31m\n\u202e[red]"


@pytest.mark.parametrize("format_", ["table", "value", "csv", "shell", "text", "another"])
@given(text=st.text())
def test_other_formats_get_printable_text(format_, text):
    shown = safe(text, format_)
    allowed = ("\n", "\t") if format_ == "text" else ()
    assert "".join(char for char in shown if char not in allowed).isprintable()
    column = safe(OrEmpty(text), format_)
    assert (column.human_readable() if format_ in ("table", "text") else column).isprintable()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "yes"),
        (False, "no"),
        ([1, None, "a"], "1,none,a"),
        ({"a": [1, 2], "b": True, "c\n": None}, r"a:1,2,b:yes,c\n:none"),
        ([{"a": 1}, {"a": False}], "a:1|a:no"),
    ],
)
def test_a_table_shows_documents_and_lists_in_words(value, shown):
    assert safe(value, "table") == safe(value, "text").replace("\n", r"\n") == shown
    assert safe(None, "csv") is safe(OrEmpty(None), "csv") is None


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (OrEmpty, ["a", "b", None]),
        (OrEmpty, [9, 10, None]),
        (KeyValues, [{"a": 1}, {"a": 2}, {"b": 0}]),
        (Lines, [["a"], ["b"]]),
    ],
)
def test_cells_have_an_order_and_what_is_absent_is_last(kind, values):
    assert sorted(map(kind, reversed(values))) == list(map(kind, values))


def test_a_line_feed_in_a_value_makes_no_line_of_a_table():
    assert Lines([TEXT, 1]).human_readable() == f"{SHOWN}\n1"
    assert KeyValues({"a\nb": TEXT}).human_readable() == rf"a\nb={SHOWN}"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", " =1", "\t=1", "\uff1d1", "=\x1b"])
def test_no_cell_of_a_spreadsheet_is_a_formula(text):
    out = io.StringIO()
    csv.writer(out, escapechar="\\").writerow([safe(text, "csv"), safe(OrEmpty(text), "csv")])
    (row,) = csv.reader(io.StringIO(out.getvalue()), escapechar="\\")
    assert all(cell[0] == "'" or cell.startswith("\\t") or cell[0] == "t" for cell in row)


def test_a_document_keeps_its_lines_and_its_meaning():
    assert safe("a\n\tb\x1b", "text") == "a\n\tb\\x1b"
    document = plain_xml("<a>\n\u202e\xa0\u00fc</a>")
    assert document == "<a>\n&#8238;&#160;\u00fc</a>"
    assert safe(document, "text") == document


def test_shell_variables_are_literal():
    assert safe("$(id) `id` \\", "shell") == "\\$(id) \\`id\\` \\\\"
    assert safe(OrEmpty("$x"), "shell") == r"\$x"
    assert safe([{"name": "$(id)"}], "shell") == r"[{'name': '\$(id)'}]"
    text = "=1+1\x1b[31m\n$(echo gone) `echo gone` \\"
    script = f'name="{safe(text, "shell")}"; printf %s "$name"'
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == printable(text)
