"""What Tempest printed about each test, and how two runs of it differ. Nothing is run here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

#: A line of the progress that `tempest run` prints: its worker, the test, and how it ended. A class
#: whose preparation failed or was skipped has one line in the place of its tests.
_LINE = re.compile(
    r"^\{\d+\} ((?P<step>setUpClass|tearDownClass) \((?P<group>\S+)\)|(?P<test>tempest\.\S+)).*"
    r" \.\.\. (?P<outcome>ok|FAILED|SKIPPED)(: .*)?$"
)
#: The last part of the names of such lines: for all tests of a class, or after them.
_STEPS = ("setUpClass", "tearDownClass")


class Results(dict[str, str]):
    """How each test ended (``ok``, ``FAILED`` or ``SKIPPED``), by its name."""

    @classmethod
    def of(cls, output: Iterable[str]) -> Results:
        """Read what `tempest run` printed."""
        results = cls()
        for line in output:
            if matched := _LINE.match(line.rstrip()):
                name = matched["test"] or f"{matched['group']}.{matched['step']}"
                results[name] = matched["outcome"]
        return results

    def updated(self, newer: Results) -> Results:
        """Return the results with newer ones, of the same or of other tests."""
        groups = {name.rpartition(".")[0] for name in newer}
        left = {
            name: outcome
            for name, outcome in self.items()
            if name.rpartition(".")[0] not in groups or name.rpartition(".")[2] not in _STEPS
        }
        return Results(left | newer)

    def count(self) -> str:
        """Return the numbers of each outcome, for people."""
        counts = Counter(self.values())
        return ", ".join(f"{counts[name]} {name.lower()}" for name in ("ok", "SKIPPED", "FAILED"))


def differences(stock: Mapping[str, str], rtagent: Mapping[str, str]) -> list[str]:
    """Return a line for each test that did not end in the same way."""
    return [
        f"{name}: stock {stock.get(name, 'not run')}, rtagent {rtagent.get(name, 'not run')}"
        for name in sorted({*stock, *rtagent})
        if stock.get(name) != rtagent.get(name)
    ]


def table(stock: Results, rtagent: Results) -> str:
    """Return the results by class of tests, as a CSV table."""

    def by_class(results: Results) -> dict[str, Counter[str]]:
        counts: dict[str, Counter[str]] = {}
        for name, outcome in results.items():
            counts.setdefault(name.rpartition(".")[0], Counter())[outcome] += 1
        return counts

    first, second = by_class(stock), by_class(rtagent)
    rows = ["class,stock ok,stock skipped,stock failed,rtagent ok,rtagent skipped,rtagent failed"]
    for name in sorted({*first, *second}):
        numbers = [
            str(counts.get(name, Counter())[outcome])
            for counts in (first, second)
            for outcome in ("ok", "SKIPPED", "FAILED")
        ]
        rows.append(",".join([name.removeprefix("tempest.api.compute."), *numbers]))
    return "\n".join(rows) + "\n"
