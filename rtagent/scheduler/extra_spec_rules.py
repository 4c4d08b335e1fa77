"""Extra spec rules: an operator and its value, as operators write them in a flavor's extra specs.

==========================  ======================================================================
``=``, ``>=``               the number is at least this
``==  !=  <=  <  >``        numbers
``s==  s!=  s<  s<=  s>  s>=``  text, by the order of its characters
``<in>``                    the text contains this word
``<all-in>``                it contains all of these words
``<or>``                    it is one of these words: ``<or> a <or> b``
none of these               it is exactly this text
==========================  ======================================================================

They are Nova's, with ``<`` and ``>`` for numbers in addition.
"""

import math
import operator
from collections.abc import Callable, Iterator

from rtagent.model.schema_errors import step
from rtagent.scheduler.filter import invalid

#: Whether a text of the host satisfies the rule.
#: :raises ValueError: the rule compares numbers, and the text is none.
Rule = Callable[[str], bool]

_NUMBERS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
    "<in>": lambda value, word: word in value,
}


def extra_spec_rule(key: str, written: str) -> Rule:
    """Return the rule that an extra spec states.

    :raises InvalidRequest: the operator has no value, or one that it cannot use.
    """
    words = written.split()
    if not words:
        return lambda value: value == written
    name, *operands = words
    if name in _NUMBERS:
        compare, wanted = _NUMBERS[name], _number_of(key, name, operands)
        return lambda value: compare(number(value), wanted)
    if name in _TEXTS:
        compare_texts, text = _TEXTS[name], _needed(key, name, operands)[0]
        return lambda value: compare_texts(value, text)
    if name == "<all-in>":
        needed = _needed(key, name, operands)
        return lambda value: all(word in value for word in needed)
    if name == "<or>":
        alternatives = frozenset(_alternatives(key, words))
        return lambda value: value in alternatives
    return lambda value: value == written


def number(text: str) -> float:
    """Return the finite number that a text is. :raises ValueError: it is none."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def _needed(key: str, name: str, operands: list[str]) -> list[str]:
    if not operands:
        raise invalid(_path(key), f"{name} needs a value after it")
    return operands


def _number_of(key: str, name: str, operands: list[str]) -> float:
    try:
        return number(_needed(key, name, operands)[0])
    except ValueError:
        raise invalid(_path(key), f"{name} compares numbers, so its value must be one") from None


def _alternatives(key: str, words: list[str]) -> Iterator[str]:
    """Yield the words between ``<or>``."""
    if len(words) % 2 or any(word != "<or>" for word in words[::2]):
        raise invalid(_path(key), "alternatives are single words: <or> a <or> b")
    yield from words[1::2]


def _path(key: str) -> str:
    return f".flavor.extra_specs{step(key)}"
