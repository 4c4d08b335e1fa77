"""The page that follows a claim through the files of the agent."""

import gc
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import rtagent
from rtagent.conf import load
from rtagent.conf.settings import SettingsHolder
from rtagent.rpc import AGENT
from rtagent.rpc.server import RpcServer
from rtagent.service.trust import CallerAccess
from rtagent.tracker import ResourceTracker
from tests.functional.rpc.conftest import Station
from tests.functional.rpc.raw_messages import RawSender
from tests.servers.rabbitmq import RabbitMQ
from tests.support.configurations import parsed
from tests.support.rpc import build

PACKAGE = f"{Path(rtagent.__file__).parent}/"
#: Has the first function of a wait for a message.
WAIT = "rpc/amqp_transport.py"
PAGE = Path(__file__).parents[3] / "doc/source/contributor/architecture.rst"


class Watch:
    """Collects the files of the package whose functions are called, until a rule is submitted.

    :ivar begin: is set before the message is sent. :ivar waits: is set when the server has begun to
        wait for it since. :ivar submitted: is set when a rule is submitted.
    """

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.begin, self.waits = threading.Event(), threading.Event()
        self.submitted = threading.Event()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not self.begin.is_set() or self.submitted.is_set():
            return
        if code is ResourceTracker.create.__code__:
            self.submitted.set()
        elif code.co_filename.startswith(PACKAGE):
            self.files.add(code.co_filename.removeprefix(PACKAGE))
            if WAIT in self.files:
                self.waits.set()


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Watches the threads that start from now on.

    The garbage collector would call functions in them, too, for values of whichever test.
    """
    made = Watch()
    gc.disable()
    threading.setprofile(made)
    yield made
    threading.setprofile(None)
    gc.enable()


def admit_as_a_daemon(station: Station, directory: Path) -> None:
    """Let the callers of a station be those of a daemon, with its keys and its policy."""
    conf, agent = parsed(directory, ""), station.agent
    settings = SettingsHolder(load.read(conf))
    agent.access = CallerAccess(AGENT, conf, settings, agent.clock, agent.telemetry).access
    agent.serve()
    station.server = RpcServer(
        station.transport(),
        station.host,
        agent.endpoint,
        agent.in_flight,
        agent.clock,
        agent.telemetry,
    )


def test_claim_passes_the_files_of_the_page_before_the_tracker(
    rabbitmq: RabbitMQ, station_on: Callable[..., Station], watch: Watch, tmp_path: Path
) -> None:
    station = station_on(rabbitmq.transport_url)
    admit_as_a_daemon(station, tmp_path)
    station.start()
    with RawSender(rabbitmq.port, station.host) as sender:
        watch.begin.set()
        assert watch.waits.wait(60)
        sender.request(method="instance_claim", args=build(), _context_roles=["conductor"])
        assert watch.submitted.wait(60)
    _, _, section = PAGE.read_text().partition(".. _way-of-a-claim:")
    picture, _, _ = section.partition("\n    tracker.py ")
    assert watch.files - {"tracker.py"} == set(re.findall(r"^ +(\w\S+\.py) ", picture, re.M))
    assert len(watch.files - {"tracker.py"}) <= 16
