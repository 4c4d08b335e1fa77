"""What is read off the syntax of a function."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from mypy import nodes, patterns
from mypy.traverser import all_name_and_member_expressions

from measures.program import method_of


@cache
def names_in(item: nodes.FuncItem) -> tuple[set[str], set[str]]:
    """Names that a function uses, and attributes of ``self``."""
    names, members = all_name_and_member_expressions(nodes.LambdaExpr([], item.body))
    return {each.name for each in names}, {each.name for each in members if is_self(each.expr)}


def free_names(item: nodes.FuncItem) -> set[str]:
    """Names that a function uses and does not take as parameters."""
    return names_in(item)[0] - {argument.variable.name for argument in item.arguments}


@cache
def reads(method: nodes.FuncDef, owner: nodes.TypeInfo) -> frozenset[str]:
    """Attributes of ``self`` that a method uses, itself or through others of its class."""
    found, todo, seen = set[str](), [method], {method}
    while todo:
        for name in names_in(todo.pop())[1]:
            called = method_of(owner, name)
            if called is None:
                found.add(name)
            elif called not in seen:
                seen.add(called)
                todo.append(called)
    return frozenset(found)


def method_is_own(info: nodes.TypeInfo, name: str) -> bool:
    """Whether a class or one of its bases in the same program defines a method."""
    method = method_of(info, name)
    package = info.module_name.partition(".")[0]
    return method is not None and method.info.module_name.partition(".")[0] == package


def constructs(expression: nodes.Expression) -> bool:
    """Whether an expression calls a class."""
    if not isinstance(expression, nodes.CallExpr):
        return False
    callee = expression.callee
    return isinstance(callee, nodes.RefExpr) and isinstance(callee.node, nodes.TypeInfo)


def is_error(info: nodes.TypeInfo) -> bool:
    """Whether a class is an exception."""
    return any(base.fullname == "builtins.BaseException" for base in info.mro)


def is_self(expression: nodes.Expression) -> bool:
    return isinstance(expression, nodes.NameExpr) and expression.name == "self"


def is_module(expression: nodes.Expression) -> bool:
    return isinstance(expression, nodes.RefExpr) and isinstance(expression.node, nodes.MypyFile)


def parts(expression: nodes.Expression) -> Iterator[nodes.Expression | None]:
    match expression:
        case nodes.TupleExpr() | nodes.ListExpr() | nodes.SetExpr():
            yield from expression.items
        case nodes.DictExpr():
            for key, value in expression.items:
                yield from (key, value)
        case nodes.OpExpr():
            yield from (expression.left, expression.right)
        case nodes.ComparisonExpr():
            yield from expression.operands
        case nodes.UnaryExpr() | nodes.StarExpr() | nodes.AwaitExpr() | nodes.CastExpr():
            yield expression.expr


def captured(pattern: object) -> Iterator[nodes.NameExpr]:
    match pattern:
        case patterns.AsPattern():
            if pattern.name is not None:
                yield pattern.name
            yield from captured(pattern.pattern)
        case patterns.ClassPattern():
            for each in (*pattern.positionals, *pattern.keyword_values):
                yield from captured(each)
        case patterns.SequencePattern() | patterns.OrPattern():
            for each in pattern.patterns:
                yield from captured(each)
