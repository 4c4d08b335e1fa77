"""Views of immutable values: computed once for each value, dropped with it."""

import gc
import weakref

from rtagent.model.derived import derived


class Word:
    """A value that counts as equal to every other, so that only identity distinguishes two."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def test_a_result_is_carried_to_an_equal_value():
    calls = []

    @derived
    def upper(word: Word) -> str:
        calls.append(word.text)
        return word.text.upper()

    one, other, third = Word("a"), Word("b"), Word("c")
    upper.carry(one, other)  # nothing is known yet
    upper(one)
    upper.carry(one, third)
    assert (upper(third), upper(other)) == ("A", "B")
    assert calls == ["a", "b"]


def test_a_view_is_freed_with_its_value():
    class Result:
        pass

    @derived
    def result(_: Word) -> Result:
        return Result()

    word = Word("a")
    alive = weakref.ref(result(word))
    assert alive() is not None
    del word
    gc.collect()
    assert alive() is None


def test_values_that_come_and_go_are_never_mixed_up():
    @derived
    def text(word: Word) -> str:
        return word.text

    # Each word is freed before the next is made, which may have the same address then.
    assert [text(Word(str(n))) for n in range(1000)] == [str(n) for n in range(1000)]
