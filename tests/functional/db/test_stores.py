"""The unit tests of the stores, with the fixtures of this directory: on every database."""

from tests.unit.db import (
    test_claim_rows,
    test_commit,
    test_device_rows,
    test_domain_rows,
    test_history,
    test_migration_rows,
    test_node_rows,
    test_operation_rows,
    test_purge,
    test_registry,
    test_store,
    test_unit_rows,
)

for module in (
    test_claim_rows,
    test_commit,
    test_device_rows,
    test_domain_rows,
    test_history,
    test_migration_rows,
    test_node_rows,
    test_operation_rows,
    test_purge,
    test_registry,
    test_store,
    test_unit_rows,
):
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    assert not tests.keys() & globals().keys(), "two tests have one name"
    globals().update(tests)
