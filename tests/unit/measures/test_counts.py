"""Stays, sizes, circles and words."""

from __future__ import annotations

from measures import language, tree
from measures.journeys import STARTS, Journey
from measures.measure import Measure


def test_a_stay_is_a_stretch_in_one_room():
    calls = ("rtagent.rpc.a.f", "rtagent.rpc.b.g", "rtagent.tracker.h", "rtagent.rpc.a.k")
    modules = ("rtagent.rpc.a", "rtagent.rpc.b", "rtagent.tracker", "rtagent.rpc.a")
    values = [measure.value for measure in Journey(STARTS[0], calls, modules).measures()]
    assert values == [3, 2, 3, 4]


def test_modules_that_import_each_other_are_one_circle():
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set[str]()}
    assert tree.circles(imports) == [{"a", "b", "c"}]


def test_imports_between_modules_of_a_room_are_not_between_rooms():
    imports = {"p.a.x": {"p.a.y", "p.b"}, "p.a.y": {"p.a.x"}, "p.b": set[str]()}
    assert tree.between_rooms(imports) == {"p.a": {"p.b"}, "p.b": set()}


def test_long_functions_count_their_docstring():
    body = "\n".join(f"    a = {number}" for number in range(tree.LONG_FUNCTION - 1))
    assert tree.long_functions(f"def f():\n{body}") == []
    assert tree.long_functions(f"def f():\n    '''Why.'''\n{body}") == ["f"]


def test_old_words_are_counted_in_names_and_texts():
    found = language.count("Kernel self._kernel kernelspace kept back kept_back cpu.kernel.time")
    assert found == {"kernels?": 2, "kept[ _]back": 2}


def test_a_target_may_have_a_lower_end():
    assert [Measure("lines", value, 130, least=100).met for value in (99, 100, 130, 131)] == [
        False,
        True,
        True,
        False,
    ]
    assert Measure("lines", 1).met is None
