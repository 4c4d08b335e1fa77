"""Values that are made from primitives, in many threads."""

import subprocess
import sys
import textwrap

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


def test_threads_may_be_the_first_to_use_a_type_at_the_same_time():
    command = [sys.executable, "-c", FIRST_USES]
    ended = subprocess.run(command, check=False, timeout=120, capture_output=True)

    assert ended.returncode == 0, ended.stderr.decode()
