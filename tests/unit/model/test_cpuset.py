"""Parsing and formatting of CPU sets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtagent.model.cpuset import BadCpuSet, format_cpu_spec, parse_cpu_spec


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("^1,0-3,8", {0, 2, 3, 8}),
        ("0-7,^2-5", {0, 1, 6, 7}),
        (" 1 , 3 - 4 ,, ", {1, 3, 4}),
        ("", set()),
        ("5-5", {5}),
    ],
)
def test_cpu_set_is_parsed(text, cpus):
    assert parse_cpu_spec(text) == cpus


@pytest.mark.parametrize(
    ("text", "part", "why"),
    [
        ("0-3,x", "'x'", "not a CPU number"),
        ("3-1", "'3-1'", "must not exceed"),
        ("1-2-3", "'1-2-3'", "not a CPU number"),
        ("1-", "'1-'", "not a CPU number"),
        ("^", "'^'", "not a CPU number"),
        ("1_0", "'1_0'", "not a CPU number"),
        ("\u0663", "'\u0663'", "not a CPU number"),
        ("0-4294967295", "'0-4294967295'", "exceeds 65535"),
        ("9" * 5000, "9", "exceeds 65535"),
    ],
)
def test_error_quotes_the_invalid_part(text, part, why):
    with pytest.raises(BadCpuSet) as refused:
        parse_cpu_spec(text)
    assert part in str(refused.value)
    assert why in str(refused.value)


@given(st.frozensets(st.integers(0, 300)))
def test_formatted_cpu_set_parses_to_the_same_set(cpus):
    assert parse_cpu_spec(format_cpu_spec(cpus)) == cpus


def test_text_that_would_take_minutes_to_parse_is_refused():
    with pytest.raises(BadCpuSet, match="its parts have more than 262144 CPUs together"):
        parse_cpu_spec("0-65535," * 100_000)
