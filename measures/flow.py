"""Follow one argument through the program, in the order in which the code is written.

The argument is a document that a caller sends. These values are made of it:

- a part of it: an attribute, an item, what a loop or an unpacking takes out of it;
- a tuple, list, set, dict, comprehension, ``a or b``, ``a if c else b`` or union with it;
- an object that is constructed with it, and a closure, lambda or `functools.partial` over it;
- the result of a function that returns such a value, and the result of a library's function, or of
  a method of such a value.

Numbers, texts and comparisons are other values, and so is an item that is looked up by a part. What
a function returns, or an attribute has, is made of the argument only if it can hold a document: the
class of the argument, one that it is composed of, or one that holds any of these. So results that
are calculated from the documents are other values. But every attribute of a document that is no
number and no text is a part of it, and every object that is constructed with a part holds it:
passing the fields of a document on instead of the document does not shorten the way.

A function receives the argument if it is called with such a value, or on an object that is one. An
object with an ``__init__`` of its own keeps the argument in attributes: a method of that object
receives it if it reads one of these, itself or through another method of ``self``. A lambda belongs
to the function that it stands in. A protocol or an abstract method receives the argument and passes
it to no other function. Exception handlers and what is raised are not followed: this is a call that
succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mypy import nodes

from measures.program import Program, function_of, method_of
from measures.syntax import (
    captured,
    constructs,
    free_names,
    is_error,
    is_module,
    is_self,
    method_is_own,
    parts,
    reads,
)
from measures.values import CARRIED, PLAIN, Arguments, Function, Scope, Value

#: Methods of containers that put an argument into them.
PUT = frozenset({"add", "append", "appendleft", "extend", "insert", "put", "setdefault", "update"})


class _Arrived(Exception):
    """The argument is where its trip ends."""


class Trip:
    """One argument's way.

    :ivar calls: dotted name of every function that received it, in order of the calls.
    :ivar arrived: whether the function that the trip was to end at received it.
    """

    def __init__(self, program: Program, start: nodes.FuncDef, argument: str, until: str) -> None:
        """:param until: shell pattern of the dotted name of the function to end at; "": the end."""
        self._program, self._ends = program, set[str]()
        self._ends = {each.fullname for each in program.functions(until)} if until else set()
        self._fields: dict[tuple[str, str], Value] = {}
        self._passed: dict[nodes.FuncDef, tuple[dict[str, Value], Value]] = {}
        self.calls: list[str] = []
        self.arrived = not until
        self._parts = program.parts(start, argument)
        self._documents = program.holders(self._parts)
        function = Function(start, receiver=PLAIN, receiver_class=program.concrete(start))
        try:
            self._enter(start, function, {argument: CARRIED})
        except _Arrived:
            self.arrived = True

    # -- calls ----------------------------------------------------------------------------------

    def _enter(self, item: nodes.FuncDef, function: Function, arguments: dict[str, Value]) -> Value:
        outer = function.scope
        place = f"{outer.place}.{item.name}" if outer is not None else item.fullname
        self.calls.append(place)
        if item.fullname in self._ends:
            raise _Arrived
        before, result = self._passed.get(item, ({}, PLAIN))
        known = {
            name: before.get(name, PLAIN).plus(arguments.get(name, PLAIN))
            for name in {**before, **arguments}
        }
        if item in self._passed and known == before:
            return result
        self._passed[item] = known, result
        scope = Scope(place, outer, dict(known), function.receiver_class)
        self._block(item.body, scope)
        self._passed[item] = known, scope.result
        return scope.result

    def _call(self, function: Function, given: Arguments) -> Value:
        given = given.after(function.bound, function.named)
        item = function.item
        names = [argument.variable.name for argument in item.arguments]
        if isinstance(item, nodes.LambdaExpr):
            arguments = given.to(names, item.arg_kinds)
            assert function.scope is not None
            scope = Scope(function.scope.place, function.scope, arguments)
            self._block(item.body, scope)
            return scope.result
        takes_self = bool(item.info) and not item.is_static and function.receiver is not None
        arguments = given.to(names[takes_self:], item.arg_kinds[takes_self:])
        receiver, owner = function.receiver or PLAIN, function.receiver_class
        receives = any(value.carried for value in arguments.values())
        defaults = Scope(item.fullname)
        for argument in item.arguments:
            if argument.initializer is not None and argument.variable.name not in arguments:
                value = self._evaluate(argument.initializer, defaults)
                if value.callables:
                    arguments[argument.variable.name] = value
        if takes_self and owner is not None:
            keeps = method_is_own(owner, "__init__")
            if receiver.carried and not keeps:
                arguments[names[0]] = CARRIED
                receives = True
            elif any(
                (base.fullname, name) in self._fields
                for base in owner.mro
                for name in reads(item, owner)
            ):
                receives = True
        elif function.scope is not None and self._captures(item, function.scope):
            receives = True
        return self._enter(item, function, arguments) if receives else PLAIN

    def _call_expression(self, call: nodes.CallExpr, scope: Scope) -> Value:
        callee = call.callee
        target = self._evaluate(callee, scope)
        given = Arguments(
            [
                (kind, name, self._evaluate(value, scope))
                for kind, name, value in zip(call.arg_kinds, call.arg_names, call.args, strict=True)
            ]
        )
        if isinstance(callee, nodes.RefExpr):
            if callee.fullname == "functools.partial" and given.values:
                return given.partial()
            if isinstance(callee.node, nodes.TypeInfo):
                return self._construct(callee.node, given)
        own = [
            each
            for each in target.callables
            if isinstance(each.item, nodes.LambdaExpr)
            or each.scope is not None
            or self._program.owns(each.item)
        ]
        if own:
            result = PLAIN
            for function in own:
                result = result.plus(self._call(function, given))
            return result
        return self._call_library(call, target, given, scope)

    def _construct(self, info: nodes.TypeInfo, given: Arguments) -> Value:
        for name in ("__init__", "__post_init__"):
            method = method_of(info, name)
            if method is not None and self._program.owns(method) and not is_error(info):
                self._call(Function(method, None, PLAIN, info), given)
        return CARRIED if given.carried else PLAIN

    def _call_library(
        self, call: nodes.CallExpr, target: Value, given: Arguments, scope: Scope
    ) -> Value:
        callee = call.callee
        if (
            isinstance(callee, nodes.MemberExpr)
            and not isinstance(
                callee.node, nodes.FuncDef | nodes.OverloadedFuncDef | nodes.Decorator
            )
            and not is_module(callee.expr)
        ):
            if callee.name in PUT and given.carried:
                self._assign(callee.expr, Value(True, given.callables), scope)
            made = target.carried  # a method of the argument
            if callee.name == "setdefault":
                made = made or given.carried
        else:
            made = given.carried
        for function in given.callables:
            # Of a key, a filter or a mapping: it is called with the items.
            if any(value.carried and not value.callables for _, _, value in given.values):
                item = function.item
                count = sum(kind == nodes.ARG_POS for kind in item.arg_kinds)
                each = Arguments([(nodes.ARG_POS, None, CARRIED)] * count)
                made = self._call(function, each).carried or made
        return CARRIED if made else PLAIN

    def _captures(self, item: nodes.FuncItem, scope: Scope) -> bool:
        return any(scope.get(name).carried for name in free_names(item))

    # -- expressions ----------------------------------------------------------------------------

    def _evaluate(self, expression: nodes.Expression, scope: Scope) -> Value:
        match expression:
            case nodes.NameExpr():
                return self._name(expression, scope)
            case nodes.MemberExpr():
                return self._kept(expression, self._attribute(expression, scope), scope)
            case nodes.CallExpr():
                return self._kept(expression, self._call_expression(expression, scope), scope)
            case nodes.LambdaExpr():
                return Value(self._captures(expression, scope), (Function(expression, scope),))
            case nodes.IndexExpr():
                self._evaluate(expression.index, scope)
                return self._kept(expression, self._evaluate(expression.base, scope), scope)
            case nodes.ComparisonExpr() | nodes.UnaryExpr():
                self._all(parts(expression), scope)
                return PLAIN
            case nodes.ConditionalExpr():
                self._evaluate(expression.cond, scope)
                return self._all((expression.if_expr, expression.else_expr), scope)
            case nodes.AssignmentExpr():
                value = self._evaluate(expression.value, scope)
                self._assign(expression.target, value, scope)
                return value
            case nodes.GeneratorExpr():
                return self._comprehension(expression, (expression.left_expr,), scope)
            case nodes.ListComprehension() | nodes.SetComprehension():
                return self._evaluate(expression.generator, scope)
            case nodes.DictionaryComprehension():
                return self._comprehension(
                    expression, [*filter(None, (expression.key, expression.value))], scope
                )
            case nodes.YieldExpr() | nodes.YieldFromExpr():
                value = self._evaluate(expression.expr, scope) if expression.expr else PLAIN
                scope.result = scope.result.plus(value)
                return PLAIN
        return self._all(parts(expression), scope)

    def _kept(self, expression: nodes.Expression, value: Value, scope: Scope) -> Value:
        """A value, which is not the argument's if it can hold nothing of it."""
        if isinstance(expression, nodes.MemberExpr) and not self._parts.isdisjoint(
            self._classes(expression.expr, scope)
        ):
            keeps = not self._program.is_scalar(expression)
        else:
            keeps = constructs(expression) or self._program.keeps(expression, self._documents)
        return value if keeps else replace(value, carried=False)

    def _all(self, expressions: Iterable[nodes.Expression | None], scope: Scope) -> Value:
        value = PLAIN
        for each in expressions:
            if each is not None:
                value = value.plus(self._evaluate(each, scope))
        return value

    def _name(self, name: nodes.NameExpr, scope: Scope) -> Value:
        function = function_of(name.node)
        known = scope.get(name.name)
        if function is not None and known == PLAIN:
            return Value(callables=(Function(function),))
        return known

    def _attribute(self, member: nodes.MemberExpr, scope: Scope) -> Value:
        function = function_of(member.node)
        if function is not None and is_module(member.expr):
            return Value(callables=(Function(function),))
        base = self._evaluate(member.expr, scope)
        found = PLAIN
        for info in self._classes(member.expr, scope):
            method = method_of(info, member.name)
            if method is not None:
                bound = Function(method, None, base, info)
                if not method.is_property:
                    found = found.plus(Value(callables=(bound,)))
                elif self._program.owns(method):
                    found = found.plus(self._call(bound, Arguments([])))
            for ancestor in info.mro:
                found = found.plus(self._fields.get((ancestor.fullname, member.name), PLAIN))
        if isinstance(member.expr, nodes.RefExpr) and isinstance(member.expr.node, nodes.TypeInfo):
            method = method_of(member.expr.node, member.name)
            if method is not None:
                receiver = None if method.is_static or not method.is_class else PLAIN
                found = found.plus(Value(callables=(Function(method, None, receiver),)))
        return replace(found, carried=True) if base.carried else found

    def _classes(self, expression: nodes.Expression, scope: Scope) -> list[nodes.TypeInfo]:
        owner = scope.owner()
        if owner is not None and is_self(expression):
            return [owner]
        return self._program.classes_of(expression)

    def _comprehension(
        self,
        generator: nodes.GeneratorExpr | nodes.DictionaryComprehension,
        results: Sequence[nodes.Expression],
        scope: Scope,
    ) -> Value:
        inner = Scope(scope.place, scope)
        for index, sequence in zip(generator.indices, generator.sequences, strict=True):
            self._assign(index, self._evaluate(sequence, inner), inner)
        for conditions in generator.condlists:
            self._all(conditions, inner)
        return self._all(results, inner)

    # -- statements -----------------------------------------------------------------------------

    def _block(self, block: nodes.Block | None, scope: Scope) -> None:
        for statement in block.body if block else ():
            self._statement(statement, scope)

    def _statement(self, statement: nodes.Statement, scope: Scope) -> None:
        match statement:
            case nodes.AssignmentStmt():
                self._assignment(statement, scope)
            case nodes.OperatorAssignmentStmt():
                self._assign(statement.lvalue, self._evaluate(statement.rvalue, scope), scope)
            case nodes.ExpressionStmt():
                self._evaluate(statement.expr, scope)
            case nodes.ReturnStmt() if statement.expr is not None:
                scope.result = scope.result.plus(self._evaluate(statement.expr, scope))
            case nodes.FuncDef() | nodes.Decorator():
                function = function_of(statement)
                assert function is not None
                carried = self._captures(function, scope)
                scope.put(function.name, Value(carried, (Function(function, scope),)))
            case nodes.Block():
                self._block(statement, scope)
            case _:
                self._compound(statement, scope)

    def _compound(self, statement: nodes.Statement, scope: Scope) -> None:
        match statement:
            case nodes.IfStmt():
                for condition, body in zip(statement.expr, statement.body, strict=True):
                    self._evaluate(condition, scope)
                    self._block(body, scope)
                self._block(statement.else_body, scope)
            case nodes.ForStmt():
                self._assign(statement.index, self._evaluate(statement.expr, scope), scope)
                self._block(statement.body, scope)
                self._block(statement.else_body, scope)
            case nodes.WhileStmt():
                self._evaluate(statement.expr, scope)
                self._block(statement.body, scope)
            case nodes.WithStmt():
                for expression, target in zip(statement.expr, statement.target, strict=True):
                    value = self._evaluate(expression, scope)
                    if target is not None:
                        self._assign(target, value, scope)
                self._block(statement.body, scope)
            case nodes.TryStmt():
                self._block(statement.body, scope)
                self._block(statement.else_body, scope)
                self._block(statement.finally_body, scope)
            case nodes.MatchStmt():
                value = self._evaluate(statement.subject, scope)
                for pattern, body in zip(statement.patterns, statement.bodies, strict=True):
                    for name in captured(pattern):
                        self._assign(name, value, scope)
                    self._block(body, scope)

    def _assignment(self, statement: nodes.AssignmentStmt, scope: Scope) -> None:
        value = self._evaluate(statement.rvalue, scope)
        for target in statement.lvalues:
            if (
                isinstance(target, nodes.TupleExpr)
                and isinstance(statement.rvalue, nodes.TupleExpr)
                and len(target.items) == len(statement.rvalue.items)
            ):
                for item, source in zip(target.items, statement.rvalue.items, strict=True):
                    self._assign(item, self._quietly(source, scope), scope)
            else:
                self._assign(target, value, scope)

    def _quietly(self, expression: nodes.Expression, scope: Scope) -> Value:
        """The value of an expression whose calls have been counted."""
        count = len(self.calls)
        value = self._evaluate(expression, scope)
        del self.calls[count:]
        return value

    def _assign(self, target: nodes.Expression, value: Value, scope: Scope) -> None:
        if value == PLAIN:
            return
        match target:
            case nodes.NameExpr():
                scope.put(target.name, value)
            case nodes.StarExpr():
                self._assign(target.expr, value, scope)
            case nodes.TupleExpr() | nodes.ListExpr():
                for item in target.items:
                    self._assign(item, Value(carried=value.carried), scope)
            case nodes.IndexExpr():
                self._assign(target.base, value, scope)
            case nodes.MemberExpr():
                for info in self._classes(target.expr, scope):
                    key = info.fullname, target.name
                    self._fields[key] = self._fields.get(key, PLAIN).plus(value)
                if not is_self(target.expr):
                    self._assign(target.expr, Value(carried=value.carried), scope)
