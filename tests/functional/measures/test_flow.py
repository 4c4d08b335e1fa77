"""Which functions receive an argument."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from measures.flow import Trip
from measures.program import Program

#: The documents of every example.
VALUES = """
    from __future__ import annotations
    from collections.abc import Callable
    from functools import partial
    from typing import Protocol
    from msgspec import Struct

    class Disk(Struct):
        size: int

    class Request(Struct):
        name: str
        disk: Disk
        properties: dict[str, str] = {}

    class Claim(Struct):
        request: Request

    class Count(Struct):
        number: int

    class Store(Protocol):
        def commit(self, claim: Claim) -> None: ...
"""


def calls(directory: Path, source: str, until: str = "") -> list[str]:
    """The functions that receive what ``start`` is called with first."""
    (directory / "example").mkdir()
    (directory / "example/__init__.py").touch()
    (directory / "example/values.py").write_text(dedent(VALUES))
    (directory / "example/code.py").write_text(
        "from __future__ import annotations\nfrom example.values import *\n" + dedent(source)
    )
    program = Program(directory, "example")
    (start,) = program.functions("example.code.start")
    trip = Trip(program, start, "request", until)
    return [call.removeprefix("example.code.") for call in trip.calls]


FLOWS = {
    "a part": (
        "def start(request: Request): grow(request.disk)\ndef grow(disk: Disk): ...",
        ["start", "grow"],
    ),
    "a field that is a collection": (
        """
        class Properties(Struct):
            items: dict[str, str]
        def start(request: Request): derive(request.properties)
        def derive(items: dict[str, str]): use(Properties(items))
        def use(properties: Properties): ...
        """,
        ["start", "derive", "use"],
    ),
    "a function that is a default": (
        """
        def build_of(request: Request) -> Claim: ...
        def start(request: Request): run(request)
        def run(request: Request, rule: Callable[[Request], Claim] = build_of): rule(request)
        """,
        ["start", "run", "build_of"],
    ),
    "a text": (
        "def start(request: Request): show(request.name)\ndef show(name: str): ...",
        ["start"],
    ),
    "a calculated value": (
        """
        def start(request: Request): add(number(request))
        def number(request: Request) -> Count: return Count(request.disk.size)
        def add(count: Count): ...
        """,
        ["start", "number"],
    ),
    "a constructed value": (
        """
        def start(request: Request): keep(made(request=request))
        def made(request: Request) -> Claim: return Claim(request)
        def keep(claim: Claim): ...
        """,
        ["start", "made", "keep"],
    ),
    "a lambda": (
        """
        def start(request: Request): run(lambda number: build(request, number))
        def run(rule: Callable[[int], Claim]): rule(1)
        def build(request: Request, number: int) -> Claim: ...
        """,
        ["start", "run", "build"],
    ),
    "a nested function": (
        """
        def start(request: Request):
            def rule(number: int) -> Claim: return Claim(request)
            run(rule)
        def run(rule: Callable[[int], Claim]): rule(1)
        """,
        ["start", "run", "start.rule"],
    ),
    "a partial": (
        """
        def start(request: Request): run(partial(build, request))
        def run(rule: Callable[[int], Claim]): rule(1)
        def build(request: Request, number: int) -> Claim: ...
        """,
        ["start", "run", "build"],
    ),
    "the items of a collection": (
        """
        def start(request: Request): all_of([request])
        def all_of(requests: list[Request]):
            for one in requests: each(one)
        def each(request: Request): ...
        """,
        ["start", "all_of", "each"],
    ),
    "an item that is looked up by it": (
        """
        def start(request: Request, known: dict[str, Claim]): keep(known[request.name])
        def keep(claim: Claim): ...
        """,
        ["start"],
    ),
    "an object that keeps it": (
        """
        class Queue:
            def __init__(self) -> None: self.waiting: list[Request] = []
            def put(self, request: Request): self.waiting.append(request)
            def run(self): self.first()
            def first(self): done(self.waiting[0])
            def close(self): ...
        def done(request: Request): ...
        def start(request: Request, queue: Queue):
            queue.put(request)
            queue.run()
            queue.close()
        """,
        ["start", "Queue.put", "Queue.run", "Queue.first", "done"],
    ),
    "a method of a base class": (
        """
        class Verbs:
            def build(self, request: Request): self._call(request)
            def _call(self, request: Request): ...
        class Tracker(Verbs):
            def _call(self, request: Request): ...
        def start(request: Request, tracker: Tracker): tracker.build(request)
        """,
        ["start", "Verbs.build", "Tracker._call"],
    ),
    "an error": (
        """
        def start(request: Request):
            try: check(request)
            except ValueError: explain(request)
            if not request: raise ValueError(explain(request))
        def check(request: Request): ...
        def explain(request: Request): ...
        """,
        ["start", "check"],
    ),
}


@pytest.mark.parametrize("name", FLOWS)
def test_functions_that_receive_an_argument(name, tmp_path):
    source, expected = FLOWS[name]
    assert calls(tmp_path, source) == expected


def test_a_trip_ends_at_the_named_function(tmp_path):
    source = """
        def start(request: Request, store: Store):
            store.commit(Claim(request))
            after(request)
        def after(request: Request): ...
    """
    assert calls(tmp_path, source, until="example.*.Store.commit") == [
        "start",
        "example.values.Store.commit",
    ]


def test_recursion_ends(tmp_path):
    source = """
        def start(request: Request): again(request)
        def again(request: Request): start(request)
    """
    assert calls(tmp_path, source) == ["start", "again", "start"]
