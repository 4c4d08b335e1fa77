"""What is known of values while an argument is followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mypy import nodes


@dataclass(frozen=True)
class Value:
    """What is known of a value.

    :ivar carried: it is made of the argument. :ivar callables: functions that it may be.
    """

    carried: bool = False
    callables: tuple[Function, ...] = ()

    def plus(self, other: Value) -> Value:
        """A value that is one or the other."""
        if other == PLAIN:
            return self
        more = tuple(each for each in other.callables if each not in self.callables)
        return Value(self.carried or other.carried, self.callables + more)


@dataclass(frozen=True, eq=False)
class Function:
    """A function as a value: with the variables that it closes over and what is bound already."""

    item: nodes.FuncDef | nodes.LambdaExpr
    scope: Scope | None = None
    receiver: Value | None = None
    receiver_class: nodes.TypeInfo | None = None
    bound: tuple[Value, ...] = ()
    named: tuple[tuple[str, Value], ...] = ()


PLAIN = Value()
CARRIED = Value(carried=True)


@dataclass
class Scope:
    """The variables of one function, and of those around it.

    :ivar place: dotted name of the function.
    """

    place: str
    outer: Scope | None = None
    names: dict[str, Value] = field(default_factory=dict)
    self_class: nodes.TypeInfo | None = None
    result: Value = PLAIN

    def get(self, name: str) -> Value:
        """What is known of a variable."""
        if name in self.names:
            return self.names[name]
        return self.outer.get(name) if self.outer else PLAIN

    def put(self, name: str, value: Value) -> None:
        """A variable may have this value as well."""
        self.names[name] = self.names.get(name, PLAIN).plus(value)

    def owner(self) -> nodes.TypeInfo | None:
        """The class of ``self``."""
        return self.self_class or (self.outer.owner() if self.outer else None)


@dataclass(frozen=True)
class Arguments:
    """What a call passes."""

    values: Sequence[tuple[nodes.ArgKind, str | None, Value]]

    @property
    def carried(self) -> bool:
        return any(value.carried for _, _, value in self.values)

    @property
    def callables(self) -> tuple[Function, ...]:
        return tuple(each for _, _, value in self.values for each in value.callables)

    def after(self, bound: Sequence[Value], named: Sequence[tuple[str, Value]]) -> Arguments:
        """With those that were bound before."""
        first = [(nodes.ARG_POS, None, value) for value in bound]
        return Arguments(
            [*first, *self.values, *((nodes.ARG_NAMED, name, value) for name, value in named)]
        )

    def partial(self) -> Value:
        """The value of `functools.partial` with these arguments."""
        (_, _, first), *rest = self.values
        bound = tuple(value for kind, _, value in rest if kind == nodes.ARG_POS)
        named = tuple((name, value) for kind, name, value in rest if name is not None)
        made = [
            replace(each, bound=each.bound + bound, named=each.named + named)
            for each in first.callables
        ]
        return Value(self.carried, tuple(made))

    def to(self, names: Sequence[str], kinds: Sequence[nodes.ArgKind]) -> dict[str, Value]:
        """By parameter."""
        found: dict[str, Value] = {}

        def give(name: str, value: Value) -> None:
            found[name] = found.get(name, PLAIN).plus(value)

        parameters = list(zip(names, kinds, strict=True))
        positional = [name for name, kind in parameters if kind.is_positional()]
        rest = {kind: name for name, kind in parameters if kind.is_star()}
        for kind, name, value in self.values:
            if kind == nodes.ARG_POS and positional:
                give(positional.pop(0), value)
            elif kind == nodes.ARG_POS and nodes.ARG_STAR in rest:
                give(rest[nodes.ARG_STAR], value)
            elif kind == nodes.ARG_STAR:
                for each in positional or [*filter(None, [rest.get(nodes.ARG_STAR)])]:
                    give(each, value)
            elif kind == nodes.ARG_STAR2:
                for each, _ in parameters:
                    give(each, value)
            elif name is not None and name in names:
                positional = [each for each in positional if each != name]
                give(name, value)
            elif nodes.ARG_STAR2 in rest:
                give(rest[nodes.ARG_STAR2], value)
        return {name: value for name, value in found.items() if value != PLAIN}
