"""The page about filters: it lists every filter, every option, and a filter that works."""

import re
from pathlib import Path

import pytest

from rtagent.conf.scheduler import DEFAULT_FILTERS, FilterOptions
from rtagent.scheduler import plugins
from rtagent.scheduler.filter import Filter
from rtagent.scheduler.filtering import NAMESPACE, HostFilters
from rtagent.scheduler.filters.hosts import ComputeFilter
from rtagent.scheduler.host_state import FIELDS
from tests.support.host_states import host_state
from tests.support.scheduling import scheduler_request

PAGE = Path("doc/source/admin/scheduler-filters.rst").read_text()
TABLE = PAGE.partition("The filters\n===")[2].partition(".. _extra-spec-operators")[0]
ROW = re.compile(r"^   \* - (\**)(\w+)\1( \\\*)?$", re.MULTILINE)


def test_the_table_lists_the_installed_filters():
    listed = [name for _, name, _ in ROW.findall(TABLE) if name != "Filter"]
    assert listed == list(plugins.available(NAMESPACE))


def test_the_table_marks_what_is_enabled_and_what_judges_again():
    rows = [row for row in ROW.findall(TABLE) if row[1] != "Filter"]
    assert {name for bold, name, _ in rows if bold} == set(DEFAULT_FILTERS)
    kinds = plugins.load(NAMESPACE, [name for _, name, _ in rows], "enabled_filters")
    assert {name for _, name, star in rows if star} == {
        kind.__name__ for kind in kinds if kind.every_instance
    }


def test_the_fields_of_a_host_are_listed():
    section = PAGE.partition("Fields of a host\n===")[2].partition(".. _query-hint")[0]
    assert set(re.findall(r"``(\w+)``", section)) >= FIELDS


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The example of the page, installed as a package of a third party."""
    blocks = re.findall(r"\.\. code-block:: (\w+)\n\n((?:    .*\n|\n)+)", PAGE)
    code = {kind: re.sub(r"^    ", "", text, flags=re.MULTILINE) for kind, text in blocks}
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "__init__.py").touch()
    (tmp_path / "example" / "filters.py").write_text(code["python"])
    installed = tmp_path / "example-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1\n")
    section, _, entries = code["ini"].partition("\n")[2].partition(" =\n")
    assert (code["ini"].splitlines()[0], section) == ("[options.entry_points]", NAMESPACE)
    # A group of its own, because the entry points of a group are read once a process.
    (installed / "entry_points.txt").write_text(f"[{NAMESPACE}.example]\n{entries}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return plugins.load(f"{NAMESPACE}.example", ["RackFilter"], "enabled_filters")[0]


def test_the_example_is_a_filter(example: type[Filter]):
    options = FilterOptions()
    filters = HostFilters([ComputeFilter(options), example(options)], options)
    hosts = [host_state("rack1-cn1"), host_state("rack2-cn1")]
    request = scheduler_request(hints={"rack": ["rack1-", "rack3-"]})
    filtered = filters.get_filtered_hosts(hosts, request)
    assert [host.host for host in filtered.hosts] == ["rack1-cn1"]
    assert filtered.refusals[0].rejection.message == "it is not in rack1-, rack3-"
    assert len(filters.get_filtered_hosts(hosts, scheduler_request()).hosts) == 2
