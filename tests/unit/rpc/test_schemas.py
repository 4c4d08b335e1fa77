"""The published JSON Schemas."""

import json

import pytest

from rtagent.rpc import topics
from tests.support.rpc_documents import FILES, published

STORED = {topic: json.loads(file.read_text()) for topic, file in FILES.items()}


@pytest.mark.parametrize(
    ("topic", "section"), [(topic, section) for topic in STORED for section in STORED[topic]]
)
def test_schemas_are_those_of_agents_1_3_and_schedulers_1_0(topic: str, section: str):
    now, published_then = published(topic)[section], STORED[topic][section]
    assert list(now) == list(published_then)
    for name, stored in published_then.items():
        # As text: the order of properties counts, too.
        assert json.dumps(now[name]) == json.dumps(stored), name


def test_both_topics_are_guarded():
    assert set(STORED) == {topics.AGENT, topics.SCHEDULER}
