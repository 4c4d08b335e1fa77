"""Rows have the form in which the release before this one reads and writes them, on every database,
but for fields that are new and empty.

So nothing in a database has to be converted after an upgrade. A test that fails here shows a form
that has changed: `rtagent.db.migrate` says what such a change needs.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Engine, MetaData, select

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.server_rows import SqlServerStore
from rtagent.db.store import SqlStore
from tests.functional.upgrade.previous_release import PreviousRelease
from tests.support import stored_forms
from tests.support.stored_forms import BUILT, CREATED, NODE, OPERATION

#: What migrations write; what commits do not write, and what is made from the rest of a row.
OTHERS = ("alembic_version", "schema_compatibility")
NOT_COMPARED = ("metrics", "row_digest")

Rows = Mapping[str, Sequence[Sequence[Any]]]


class Written(NamedTuple):
    """Two databases with the same content. :ivar tables: of the previous release."""

    previous: Engine
    current: Engine
    tables: MetaData


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> PreviousRelease:
    return PreviousRelease(tmp_path_factory.mktemp("previous"))


@pytest.fixture(scope="module")
def written(empty_database: Callable[[], str], release: PreviousRelease) -> Iterator[Written]:
    """A database that the previous release has filled, upgraded; and one that this release has
    filled. No test writes to them.
    """
    urls = empty_database(), empty_database()
    release.run(Path(stored_forms.__file__), urls[0])
    stored_forms.write(urls[1])
    previous, current = (open_engine(url, 30) for url in urls)
    tables = MetaData()
    tables.reflect(previous)
    assert migrate.version(previous) == release.schema
    migrate.sync(previous)
    yield Written(previous, current, tables)
    previous.dispose()
    current.dispose()


def rows(engine: Engine, tables: MetaData) -> Rows:
    """Return the rows of each table with their columns in these tables."""
    found = {}
    with engine.connect() as connection:
        for table in tables.sorted_tables:
            columns = [column for column in table.c if column.name not in NOT_COMPARED]
            if table.name not in OTHERS:
                lines = connection.execute(select(*columns))
                found[table.name] = sorted((tuple(map(form, line)) for line in lines), key=repr)
    return found


def form(value: Any) -> Any:
    """Return a column without the empty fields of its document. A field that a release adds is
    empty in what the release before writes, which leaves the field out.
    """
    if isinstance(value, str) and value.startswith("{"):
        return form(json.loads(value))
    if isinstance(value, dict):
        return {
            name: form(field) for name, field in value.items() if field not in (None, 0, [], {})
        }
    return [form(item) for item in value] if isinstance(value, list) else value


def test_both_releases_write_the_same_rows(written: Written):
    before, now = (rows(engine, written.tables) for engine in written[:2])
    assert before == now
    plain = {
        "services",
        "node_hosts",
        "event_positions",
        *(name for name in before if "aggregate" in name),
    }
    assert {name for name, lines in before.items() if not lines} == plain  # without documents


def test_rows_of_the_previous_release_are_read_as_they_were_written(written: Written):
    stores = [SqlStore(engine) for engine in written[:2]]
    before, now = (store.load(NODE.uuid) for store in stores)
    assert before == now
    assert not before.damage
    assert not before.unknown
    assert stores[0].history(NODE.uuid) == stores[1].history(NODE.uuid)
    assert stores[0].retention(NODE.uuid) == stores[1].retention(NODE.uuid)
    first = CREATED.operations[0]
    assert stores[0].operation(NODE.uuid, first.operation_id) == first
    servers = SqlServerStore(written.previous)
    assert (servers.server(BUILT.uuid), servers.operation(OPERATION.uuid)) == (BUILT, OPERATION)


def test_the_previous_release_reads_the_rows_of_this_one(
    written: Written, release: PreviousRelease, tmp_path: Path
):
    conf = tmp_path / "rtagent.conf"
    url = written.current.url.render_as_string(hide_password=False)
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n")
    checked = release.rtagent(conf, "db", "check")
    assert checked.returncode == 0, checked.stderr
