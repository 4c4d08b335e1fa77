"""Views of immutable values, and values that are made in many threads."""

import gc
import subprocess
import sys
import textwrap
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


# --- values that are made from primitives ---

#: Many types, each of which several threads are the first to use, at the same moment.
FIRST_USES = textwrap.dedent("""
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    from msgspec import defstruct

    from rtagent.model.base import Converter

    THREADS = 8
    sys.setswitchinterval(1e-6)
    together = Barrier(THREADS)

    def convert(converter):
        together.wait()
        return converter.convert({"inner": {"sizes": {"a": [1]}}, "all": [{}]})

    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(300):
            inner = defstruct(f"Inner{number}", [("sizes", "dict[str, list[int]]", {})])
            fields = [("inner", inner), ("all", tuple[inner, ...]), ("name", "str | None", None)]
            converter = Converter(defstruct(f"Outer{number}", fields))
            values = list(pool.map(convert, [converter] * THREADS))
            assert all(value.inner.sizes == {"a": [1]} for value in values)
""")


def test_threads_may_be_the_first_to_use_a_type_at_the_same_time():
    command = [sys.executable, "-c", FIRST_USES]
    ended = subprocess.run(command, check=False, timeout=120, capture_output=True)

    assert ended.returncode == 0, ended.stderr.decode()
