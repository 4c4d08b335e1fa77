"""JsonFilter: hosts that satisfy the query of the request, the hint ``query``.

``["and", [">=", "$free_ram_mb", 1024], ["not", ["=", "$stats.io_workload", 0]]]``

- ``=  <  >  <=  >=`` compare the first operand with each other one; ``in``: it equals one of them.
- ``and  or  not`` combine conditions. ``not`` of several is true unless all of them are.
- ``$NAME`` is a field of the host, ``$NAME.KEY`` a key of it. A comparison with a field or a key
  that a host does not have is false, and so is one of values that have no order.
- Statistics are numbers. Compared with a text they are texts, as in Nova.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rtagent.scheduler.filter import Check, Filter, Rejection, Request, invalid
from rtagent.scheduler.host_state import FIELDS, HostState, field

#: Levels and values of a query.
MAX_DEPTH, MAX_VALUES = 32, 1000

#: Whether a host satisfies the query.
Condition = Callable[[HostState], bool]
#: The value of an operand on a host; None: it has none.
_Operand = Callable[[HostState], Any]

_PATH = ".scheduler_hints.query"

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_LOGIC = ("and", "or", "not")
_OPERATORS = (*_COMPARISONS, "in", *_LOGIC)
_decode = msgspec.json.Decoder().decode


def parse_query(text: str) -> Condition:
    """Return the condition that a query states.

    :raises InvalidRequest: it is not JSON, or not a query. The message says where and why.
    """
    try:
        document = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise invalid(_PATH, "is not a document in JSON") from None
    return _Parser().condition(document, "", 1)


class _Parser:
    """Builds the condition. :ivar values: how many values were read."""

    def __init__(self) -> None:
        self.values = 0

    def condition(self, query: Any, path: str, depth: int) -> Condition:
        if not isinstance(query, list) or not query:
            raise invalid(_PATH + path, 'must be a list with an operator first, like ["=", ...]')
        if depth > MAX_DEPTH:
            raise invalid(_PATH + path, f"is nested more than {MAX_DEPTH} levels deep")
        self._count(len(query))
        name, *operands = query
        if not isinstance(name, str) or name not in _OPERATORS:
            raise invalid(f"{_PATH}{path}[0]", f"must be one of {' '.join(_OPERATORS)}")
        least = 1 if name in _LOGIC else 2
        if len(operands) < least:
            raise invalid(_PATH + path, f"{name} needs {least} or more operands")
        places = [(each, f"{path}[{at}]") for at, each in enumerate(operands, 1)]
        if name in _LOGIC:
            return _combined(name, [self._truth(each, at, depth) for each, at in places])
        as_text = any(isinstance(each, str) and not each.startswith("$") for each in operands)
        return _compared(name, [_operand(each, at, as_text) for each, at in places])

    def _truth(self, query: Any, path: str, depth: int) -> Condition:
        """A condition, or a field or constant that is true or false by itself."""
        if isinstance(query, bool):
            return lambda _host: query
        if isinstance(query, str) and query.startswith("$"):
            value = _field(query, path)
            return lambda host: bool(value(host))
        return self.condition(query, path, depth + 1)

    def _count(self, more: int) -> None:
        self.values += more
        if self.values > MAX_VALUES:
            raise invalid(_PATH, f"has more than {MAX_VALUES} values")


def _combined(name: str, conditions: Sequence[Condition]) -> Condition:
    if name == "and":
        return lambda host: all(condition(host) for condition in conditions)
    if name == "or":
        return lambda host: any(condition(host) for condition in conditions)
    return lambda host: not all(condition(host) for condition in conditions)


def _compared(name: str, operands: Sequence[_Operand]) -> Condition:
    first, *others = operands

    def values(host: HostState) -> tuple[Any, list[Any]] | None:
        subject, rest = first(host), [other(host) for other in others]
        return None if subject is None or None in rest else (subject, rest)

    if name == "in":
        return lambda host: (found := values(host)) is not None and found[0] in found[1]
    compare = _COMPARISONS[name]

    def condition(host: HostState) -> bool:
        found = values(host)
        try:
            return found is not None and all(compare(found[0], other) for other in found[1])
        except TypeError:  # a text and a number, for example
            return False

    return condition


def _operand(written: Any, path: str, as_text: bool) -> _Operand:
    """:param as_text: statistics are compared with a text."""
    if isinstance(written, str) and written.startswith("$"):
        value = _field(written, path)
        if as_text and written.startswith("$stats."):
            return lambda host: None if (found := value(host)) is None else str(found)
        return value
    if isinstance(written, str | int | float):  # a boolean, too
        return lambda _host: written
    raise invalid(_PATH + path, "must be a text, a number, a boolean or a field like $free_ram_mb")


def _field(written: str, path: str) -> _Operand:
    names = written[1:].split(".")
    if names[0] not in FIELDS:
        known = " ".join(f"${name}" for name in sorted(FIELDS))
        raise invalid(_PATH + path, f"is no field of a host. The fields are: {known}")
    return lambda host: field(host, names)


class JsonFilter(Filter):
    """Refuse a host that does not satisfy the hint ``query``."""

    cost = 1
    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge requests with the hint.

        :raises InvalidRequest: the query is malformed.
        """
        queries = request.spec.hint("query")
        if not queries:
            return None
        if len(queries) > 1:
            raise invalid(".scheduler_hints.query", "must be one query")
        condition = parse_query(queries[0])
        rejection = Rejection("it does not satisfy the hint query")

        return lambda host: None if condition(host) else rejection
