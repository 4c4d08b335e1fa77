"""The documentation names what exists, and all of it."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from rtagent.api import scheduler_documents
from rtagent.api.metrics import StateCollector
from rtagent.lifecycle.transitions import LIFE_CYCLE
from rtagent.model.event import EVENT_TYPES
from rtagent.ports import ACCESS_LOG
from rtagent.telemetry.metrics import COUNTS, TIMINGS
from tests.support.api_states import PageFleet, populated

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "doc" / "source"
TESTS = ROOT / "tests" / "README.rst"
PAGES = [*sorted(SOURCE.rglob("*.rst")), *sorted(ROOT.glob("*.rst")), TESTS]
#: Endings of file names, of a queue, and of a logger, which look like modules.
FILES = {"conf", "d", "service", "sock", "sqlite", "HOST", ACCESS_LOG.rpartition(".")[2]}
FOLDERS = "benchmarks|chaos|demo|doc|etc|lab|migrations|rtagent|tests|tools"
#: What commands make, which a fresh clone does not have.
MADE = "doc/build/"


def named(pattern: str) -> list[str]:
    """What the pages name between two pairs of back quotes."""
    found = (re.findall(f"``({pattern})``", page.read_text()) for page in PAGES)
    return sorted({name for names in found for name in names})


@pytest.mark.parametrize("path", named(rf"(?:{FOLDERS})/[\w./-]*"))
def test_a_named_file_exists(path: str):
    assert (ROOT / path).exists() or path.startswith(MADE)


@pytest.mark.parametrize("name", named(r"rtagent(?:\.\w+)+(?:\(.*\))?"))
def test_a_named_module_class_or_function_exists(name: str):
    module, _, attribute = name.partition("(")[0].rpartition(".")
    if attribute in FILES:
        return
    try:
        import_module(f"{module}.{attribute}")
    except ModuleNotFoundError:
        assert hasattr(import_module(module), attribute)


def promises(page: Path) -> list[tuple[str, str]]:
    """Number and row of each promise in a page's table."""
    return re.findall(r"\* - (P\d+)\n((?: {5}.*\n)+?)(?= {3}\* -|\n|\Z)", page.read_text())


def test_every_promise_of_the_architecture_names_its_tests():
    made = promises(SOURCE / "contributor" / "architecture.rst")
    tested = promises(TESTS)
    assert made
    assert [number for number, _ in tested] == [number for number, _ in made]
    for number, row in tested:
        assert re.search(r"``tests/[\w/]+/test_\w+\.py``", row), number


def test_every_package_is_in_the_architecture():
    page = (SOURCE / "contributor" / "architecture.rst").read_text()
    packages = {path.parent.name for path in (ROOT / "rtagent").glob("*/__init__.py")}
    assert {name for name in packages if f"``rtagent/{name}``" not in page} <= {"migrations"}


def metrics_on_the_page() -> set[str]:
    return set(re.findall(r"``(rtagent_\w+)``", (SOURCE / "reference" / "metrics.rst").read_text()))


def test_every_metric_is_on_its_page():
    state = {family.name for family in StateCollector(populated(), False, ()).collect()}
    timings = {f"rtagent_{name}_seconds" for name in TIMINGS}
    counts = {f"rtagent_{name}_total" for name in COUNTS}
    assert state | timings | counts <= metrics_on_the_page()


def test_every_metric_on_the_page_exists():
    code = "".join(path.read_text() for path in (ROOT / "rtagent").rglob("*.py"))
    state = {family.name for family in StateCollector(populated(), False, ()).collect()}
    fleet = {family.name for family in scheduler_documents.room_metrics(PageFleet().counts)}
    for name in metrics_on_the_page() - state - fleet - {"rtagent_build_info"}:
        stem = re.sub("^rtagent_|_total$", "", name)
        assert f'"{stem}"' in code or f'"{stem.removesuffix("_seconds")}"' in code, name


def test_every_type_of_events_is_on_its_page():
    page = (SOURCE / "reference" / "events.rst").read_text()
    found = re.findall(
        r"   \* - ``([a-z_.]+)``\n     - (.*)\n     - (announced|with the change)\n", page
    )
    assert found == [
        (each.name, each.meaning, "announced" if each.announced else "with the change")
        for each in EVENT_TYPES.values()
    ]


def test_every_action_of_a_claims_history_is_explained():
    page = (SOURCE / "reference" / "events.rst").read_text()
    table = page.partition("Actions\n-------")[2].partition("Keep and remove")[0]
    actions = {
        name for row in re.findall(r"\* - (.*)", table) for name in re.findall(r"``(\w+)``", row)
    }
    assert actions == {"create", "adopt", *LIFE_CYCLE}
