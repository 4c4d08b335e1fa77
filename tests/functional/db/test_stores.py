"""The unit tests of the stores, with the fixtures of this directory: on the database servers."""

import importlib
from collections.abc import Callable

import pytest


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def empty_database(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Without SQLite, which tests/unit/db has: test_migrate.py compares the two schemas."""
    create: Callable[[], str] = request.getfixturevalue(f"{request.param}_server").create_database
    return create


#: What depends on a database's SQL. The forms of rows are tried by `test_previous_release`.
MODULES = ("claim_rows", "history", "node_rows", "store")

for name in MODULES:
    module = importlib.import_module(f"tests.unit.db.test_{name}")
    tests = {key: test for key, test in vars(module).items() if key.startswith("test_")}
    assert not tests.keys() & globals().keys(), "two tests have one name"
    globals().update(tests)
