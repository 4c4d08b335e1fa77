"""The published JSON Schemas."""

import json
from typing import Any

import pytest

from rtagent.rpc import topics
from tests.support.rpc_documents import FILES, published

STORED = {topic: json.loads(file.read_text()) for topic, file in FILES.items()}


@pytest.mark.parametrize(
    ("topic", "section"), [(topic, section) for topic in STORED for section in STORED[topic]]
)
def test_schemas_are_those_of_agents_1_3_and_schedulers_1_0(topic: str, section: str):
    now, published_then = published(topic)[section], STORED[topic][section]
    assert now.keys() == published_then.keys()
    for name, stored in published_then.items():
        assert _unordered(now[name]) == _unordered(stored), name


def _unordered(schema: Any) -> Any:
    """Return a schema without the order of required properties, which has no meaning."""

    def unordered(document: dict[str, Any]) -> dict[str, Any]:
        required = document.get("required")
        return document | ({"required": set(required)} if isinstance(required, list) else {})

    return json.loads(json.dumps(schema), object_hook=unordered)


def test_both_topics_are_guarded():
    assert set(STORED) == {topics.AGENT, topics.SCHEDULER}
