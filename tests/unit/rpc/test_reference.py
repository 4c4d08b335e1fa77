"""The reference of the RPC API."""

import itertools
import re

import pytest

from rtagent.rpc.methods import TABLES
from rtagent.rpc.reference import reference


def titles(text: str) -> set[str]:
    lines = text.splitlines()
    return {
        title
        for title, line in itertools.pairwise(lines)
        if line and set(line) in ({"-"}, {"~"}) and len(line) == len(title)
    }


@pytest.mark.parametrize("topic", sorted(TABLES))
def test_every_method_has_a_section_and_every_link_a_target(topic):
    text = reference(topic)
    assert set(TABLES[topic].methods) <= titles(text)
    assert set(re.findall(r"\b([A-Z]\w+)_\b", text)) <= titles(text)


def test_fields_have_type_unit_and_optionality():
    text = reference()
    assert "- ``operation_id``: uuid; becomes the claim's uuid." in text
    assert "- ``memory_mb``: integer from 1; MB." in text
    assert "- ``root_gb``: integer from 0, optional; GB." in text
    assert "- ``limits``: Limits_ or null, optional" in text
    assert "- ``kind``: ``attach`` or ``build`` or ``evacuation`` or ``live-migration``" in text


def test_fields_of_a_reply_are_never_optional():
    claim = reference().partition("\nClaim\n~~~~~\n")[2].partition("~~~~")[0]
    assert "``uuid``" in claim and "optional" not in claim
