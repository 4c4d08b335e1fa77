"""Extra spec rules: operators with numbers, text and words."""

import pytest

from rtagent.errors import InvalidRequest
from rtagent.scheduler.extra_spec_rules import extra_spec_rule


@pytest.mark.parametrize(
    ("written", "value", "satisfied"),
    [
        ("= 123", "124", True),
        ("= 123", "122", False),
        ("== 123", "123.0", True),
        ("== 123", "1234", False),
        ("!= 123", "124", True),
        ("!= 123", "123", False),
        (">= 8002002", "8002002", True),
        (">= 8002002", "8002001", False),
        ("<= 2", "2", True),
        ("<= 2", "10", False),
        ("< 2", "1.5", True),
        ("< 2", "2", False),
        ("> 2", "10", True),
        ("> 2", "2", False),
        ("s== x86_64", "x86_64", True),
        ("s== x86_64", "x86", False),
        ("s!= x86_64", "ppc64", True),
        ("s!= x86_64", "x86_64", False),
        ("s< 2", "12", True),
        ("s< 2", "2", False),
        ("s<= 2", "2", True),
        ("s> 12", "2", True),
        ("s> 2", "12", False),
        ("s>= 2", "2", True),
        ("<in> 11", "12311321", True),
        ("<in> 11", "12310321", False),
        ("<in> 12 ignored", "12", True),
        ("<all-in> aes mmx", "['aes', 'mmx', 'aux']", True),
        ("<all-in> aes mmx", "['aes', 'aux']", False),
        ("<or> 11 <or> 12", "12", True),
        ("<or> 11 <or> 12", "13", False),
        ("two words", "two words", True),
        ("two words", "two", False),
        ("", "", True),
        ("", "1", False),
        ("=1", "1", False),
    ],
)
def test_an_operator_compares_as_in_nova(written, value, satisfied):
    assert extra_spec_rule("capabilities:key", written)(value) is satisfied


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("=", "needs a value"),
        ("s==", "needs a value"),
        ("<all-in>", "needs a value"),
        (">= many", "its value must be one"),
        ("== nan", "its value must be one"),
        ("<or> a <or>", "single words"),
        ("<or> a b <or> c", "single words"),
    ],
)
def test_a_malformed_rule_is_an_error_of_the_request(written, message):
    with pytest.raises(InvalidRequest) as caught:
        extra_spec_rule("capabilities:key", written)
    (error,) = caught.value.kwargs["errors"]
    assert error["path"] == '$.request_spec.flavor.extra_specs["capabilities:key"]'
    assert message in error["message"]
