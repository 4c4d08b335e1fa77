"""The digest of arguments, and what a signature covers, for arguments of any form."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rtagent.rpc.trust.credentials import PrivateKey
from rtagent.rpc.trust.keys import KeyRing
from rtagent.rpc.trust.token import CallClaims, arguments_digest, proved

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
VALUES = st.recursive(
    SCALARS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(NAMES, values, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
KEY = PrivateKey.generate("nova")
YEARS = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC))
_, PUBLIC = KeyRing([KEY.public(["conductor"], YEARS)]).get("nova") or pytest.fail("no key")


def reordered(value: Any, data) -> Any:
    """The same value with its keys in another order."""
    if isinstance(value, dict):
        order = data.draw(st.permutations(list(value)))
        return {name: reordered(value[name], data) for name in order}
    if isinstance(value, list):
        return [reordered(each, data) for each in value]
    return value


def exact(value: Any) -> Any:
    """A text of the value that also keeps the types of numbers apart."""
    return json.dumps(value, sort_keys=True)


@given(DOCUMENTS, st.data())
def test_digest_does_not_depend_on_the_order_of_keys_nor_on_the_way(document: dict[str, Any], data):
    digest = arguments_digest(document)
    assert arguments_digest(reordered(document, data)) == digest
    assert arguments_digest(json.loads(json.dumps(document))) == digest


@given(DOCUMENTS, st.data())
def test_each_changed_value_changes_the_digest(document: dict[str, Any], data):
    assume(document)
    name = data.draw(st.sampled_from(sorted(document)))
    value = data.draw(VALUES)
    assume(exact(value) != exact(document[name]))
    assert arguments_digest({**document, name: value}) != arguments_digest(document)
    without = {each: document[each] for each in document if each != name}
    assert arguments_digest(without) != arguments_digest(document)


@given(st.dictionaries(st.integers(0, 99), st.integers(), max_size=4))
def test_numbers_as_keys_have_the_digest_of_their_texts(pages: dict[int, int]):
    sent = {"pages": dict.fromkeys(pages, 1)}
    received = {"pages": {str(number): 1 for number in pages}}
    assert arguments_digest(sent) == arguments_digest(received)


def claims(fields: tuple[str, ...], iat: float) -> CallClaims:
    aud, method, digest, nonce, jti = fields
    return CallClaims(aud=aud, method=method, digest=digest, nonce=nonce, iat=iat, jti=jti)


FIELDS = st.tuples(st.tuples(*[TEXTS] * 5), st.floats(0, 2**53))


@given(FIELDS, FIELDS)
def test_different_calls_never_have_the_same_token(
    one: tuple[tuple[str, ...], float], other: tuple[tuple[str, ...], float]
):
    assume(one != other)
    tokens = [KEY.token(claims(*each)) for each in (one, other)]
    assert tokens[0] != tokens[1]
    assert [proved(token, PUBLIC, CallClaims) for token in tokens] == [claims(*one), claims(*other)]
