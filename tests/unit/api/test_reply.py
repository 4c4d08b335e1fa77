"""Documents of the read API, with any text."""

import json

from hypothesis import given
from hypothesis import strategies as st

from rtagent.api.reply import document


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_document_is_faithful_and_has_no_effect_on_a_terminal(text):
    body = document({"name": text, text: 1}).body
    assert json.loads(body) == {"name": text, text: 1}
    assert body.decode("ascii").removesuffix("\n").isprintable()


def test_examples():
    body = document({"name": "\x9b\u202e\x7f\x1b\u00fc\U0001f642"}).body
    assert body == rb'{"name":"\u009b\u202e\u007f\u001b\u00fc\ud83d\ude42"}' + b"\n"
