"""The published JSON Schemas."""

import json

import pytest

from tests.support.rpc_schemas import FILE, published

STORED = json.loads(FILE.read_text())


@pytest.mark.parametrize("section", list(STORED))
def test_schemas_are_those_of_version_1_2(section: str):
    now = published()[section]
    assert list(now) == list(STORED[section])
    for name, stored in STORED[section].items():
        # As text: the order of properties counts, too.
        assert json.dumps(now[name]) == json.dumps(stored), name
