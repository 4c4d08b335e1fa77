"""PCI addresses and patterns of addresses."""

import pytest

from rtagent.model.address import BadAddress, make_address, parse_address, parse_glob, parse_regex


def test_address_has_one_canonical_form():
    assert str(parse_address("0000:8A:1f.7")) == "0000:8a:1f.7"
    assert str(parse_address("0:8:0.0")) == "0000:08:00.0"
    assert str(make_address(0xFFFF, 0xFF, 0x1F, 7)) == "ffff:ff:1f.7"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("10000:00:00.0", "domain: 10000 is more than FFFF"),
        ("0000:00:20.0", "slot: 20 is more than 1F"),
        ("0000:00:00", "like 0000:08:00.0"),
        ("0000:00:00.0\n", "like"),
    ],
)
def test_invalid_address_names_the_rule(text, rule):
    with pytest.raises(BadAddress, match=rule):
        parse_address(text)


FIRST, SECOND = parse_address("0000:0a:02.1"), parse_address("0001:0b:02.1")


@pytest.mark.parametrize(
    ("glob", "first", "second"),
    [
        ("*:0a:02.*", True, False),
        (":0a:02.", True, False),
        ("02", True, True),
        (".2", False, False),
        ("0001:b:2.1", False, True),
        (" * : 0A : 02 . 1 ", True, False),
    ],
)
def test_glob_matches_field_by_field(glob, first, second):
    pattern = parse_glob(glob)
    assert (pattern.matches(FIRST), pattern.matches(SECOND)) == (first, second)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("1:0000:0a:02.1", "domain:bus:slot.function"),
        ("*:0g:*.*", "bus: '0g' is not hexadecimal"),
        ("*:*:*.8", "function: 8 is more than 7"),
    ],
)
def test_invalid_glob_names_the_field(text, rule):
    with pytest.raises(BadAddress, match=rule):
        parse_glob(text)


@pytest.mark.parametrize(
    ("fields", "first", "second"),
    [
        ({"bus": "0a", "slot": "02"}, True, False),
        ({"domain": "000[1-2]"}, False, True),
        # A prefix is enough (Nova's rule).
        ({"bus": "0"}, True, True),
        ({"bus": "a"}, False, False),
        ({"domain": "", "function": "1"}, True, True),
    ],
)
def test_regular_expressions_match_a_prefix_of_each_field(fields, first, second):
    pattern = parse_regex(fields)
    assert (pattern.matches(FIRST), pattern.matches(SECOND)) == (first, second)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ({"bus": "("}, "bus: not a regular expression"),
        ({"bus": 10}, "bus: must be a string"),
        ({"func": "1"}, "func: unknown field; the fields are"),
    ],
)
def test_invalid_regular_expression_names_the_field(text, rule):
    with pytest.raises(BadAddress, match=rule):
        parse_regex(text)


def test_single_patterns_name_exactly_one_address():
    assert parse_glob("0000:0a:00.0").single
    assert not parse_glob("0a:00.0").single
    whole = {"domain": "0000", "bus": "0a", "slot": "00", "function": "0"}
    assert parse_regex(whole).single
    assert not parse_regex({**whole, "function": "[0-1]"}).single
    assert not parse_regex({"bus": "0a"}).single
    assert not parse_regex({**whole, "bus": "0"}).single
