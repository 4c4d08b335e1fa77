"""Values that are made from primitives, in many threads."""

import subprocess
import sys
import textwrap
from typing import Annotated

import pytest
from msgspec import Meta, Struct, ValidationError

from rtagent.model.converter import Converter

#: Many types, each of which several threads are the first to use, at the same moment.
FIRST_USES = textwrap.dedent("""
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    from msgspec import defstruct

    from rtagent.model.converter import Converter

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


class Size(Struct, frozen=True):
    """Some megabytes."""

    mb: Annotated[int, Meta(ge=0)]


def test_document_becomes_a_value():
    assert Converter(Size).convert({"mb": 5}) == Size(5)
    assert Converter(dict[int, Size], str_keys=True).convert({"7": {"mb": 5}}) == {7: Size(5)}
    assert Converter(Size, strict=False).convert({"mb": "5"}) == Size(5)


def test_invalid_document_is_refused():
    with pytest.raises(ValidationError, match="mb"):
        Converter(Size).convert({"mb": -1})


def test_threads_may_be_the_first_to_use_a_type_at_the_same_time():
    command = [sys.executable, "-c", FIRST_USES]
    ended = subprocess.run(command, check=False, timeout=120, capture_output=True)

    assert ended.returncode == 0, ended.stderr.decode()
