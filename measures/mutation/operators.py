"""Which changes are made: mutmut's of values and operators, and two more of statements.

mutmut's changes of texts are left out, since the wording of messages is not what the tests are to
pin; so are those that remove an argument or assign None, which fail wherever the line is run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import libcst as cst
from mutmut.mutation import mutators

KEPT = (
    mutators.operator_number,
    mutators.operator_name,
    mutators.operator_augmented_assignment,
    mutators.operator_remove_unary_ops,
    mutators.operator_keywords,
    mutators.operator_swap_op,
    mutators.operator_if_exp,
    mutators.operator_match,
)


def other_branch(node: cst.If) -> Iterable[cst.If]:
    """``if a`` becomes ``if not (a)``."""
    test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    yield node.with_changes(test=cst.UnaryOperation(operator=cst.Not(), expression=test))


def no_result(node: cst.Return) -> Iterable[cst.Return]:
    """``return a`` becomes ``return None``."""
    if node.value is not None and not (
        isinstance(node.value, cst.Name) and node.value.value == "None"
    ):
        yield node.with_changes(value=cst.Name("None"))


def install() -> None:
    """Have mutmut make these changes only."""
    made: Any = mutators.mutation_operators
    made[:] = [each for each in made if each[1] in KEPT]
    made += [(cst.If, other_branch), (cst.Return, no_result)]
