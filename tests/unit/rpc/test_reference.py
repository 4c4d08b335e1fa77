"""The reference that is written from the schemas."""

import itertools
import re
from pathlib import Path

from rtagent.rpc.methods import METHODS
from rtagent.rpc.reference import reference

PAGE = Path(__file__).resolve().parents[3] / "doc" / "rpc.rst"


def test_the_page_is_that_of_the_schemas():
    assert PAGE.read_text() == reference(), "run: rtagent schema reference > doc/rpc.rst"


def titles(text: str) -> set[str]:
    lines = text.splitlines()
    return {
        title
        for title, line in itertools.pairwise(lines)
        if line and set(line) in ({"-"}, {"~"}) and len(line) == len(title)
    }


def test_every_method_has_its_section_and_every_reference_leads_somewhere():
    text = reference()
    assert set(METHODS) <= titles(text)
    assert set(re.findall(r"\b([A-Z]\w+)_\b", text)) <= titles(text)


def test_fields_say_type_unit_and_need():
    text = reference()
    assert "- ``operation_id``: uuid; the claim's uuid to be." in text
    assert "- ``memory_mb``: integer from 1; MB." in text
    assert "- ``root_gb``: integer from 0, optional; GB." in text
    assert "- ``limits``: Limits_ or null, optional" in text
    assert "- ``kind``: ``attach`` or ``build`` or ``evacuation`` or ``live-migration``" in text


def test_what_is_answered_is_never_optional():
    claim = reference().partition("\nClaim\n~~~~~\n")[2].partition("~~~~")[0]
    assert "``uuid``" in claim and "optional" not in claim
