"""Commands of the tutorial print what it shows.

It has a file of its own, so that another worker can run the commands of the other pages.
"""

from pathlib import Path

from tests.functional.doc.examples import REMEDY, SOURCE, TUTORIAL, comparable, tutorial
from tests.servers import RabbitMQ


def test_tutorial_makes_a_cloud_from_nothing(tmp_path: Path, rabbitmq: RabbitMQ):
    shown = (SOURCE / TUTORIAL).read_text()
    printed = tutorial(shown, tmp_path, rabbitmq.transport_url)
    assert comparable(printed) == comparable(shown), REMEDY
