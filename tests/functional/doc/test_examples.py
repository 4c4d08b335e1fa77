"""Commands in the documentation print what it shows."""

from pathlib import Path

import pytest

from tests.functional.doc.examples import REMEDY, SOURCE, STORY, TRIALS, comparable, story, trial
from tests.servers import RabbitMQ


@pytest.mark.parametrize("name", TRIALS)
def test_single_commands_print_what_their_page_shows(name: str, tmp_path: Path, rabbitmq: RabbitMQ):
    shown = (SOURCE / name).read_text()
    printed = trial(shown, tmp_path, rabbitmq.transport_url)
    assert comparable(printed) == comparable(shown), REMEDY


def test_sequences_of_commands_print_what_their_pages_show(tmp_path: Path, rabbitmq: RabbitMQ):
    shown = [(SOURCE / name).read_text() for name in STORY]
    printed = story(shown, tmp_path, rabbitmq.transport_url)
    assert list(map(comparable, printed)) == list(map(comparable, shown)), REMEDY
