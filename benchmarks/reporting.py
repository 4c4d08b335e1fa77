"""python -m benchmarks.reporting URL DIRECTORY AGENTS SECONDS

Nodes that report their hosts, and get claims all the time. It prints the time of each commit, by
host and revision, as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from oslo_config import cfg

from benchmarks import agents
from rtagent.claims import instance_claim
from rtagent.conf.settings import SettingsHolder
from rtagent.embedded import EmbeddedNode, SystemClock
from rtagent.model.change import Change
from rtagent.model.node_state import NodeState
from rtagent.ports import NullReporter
from rtagent.rpc import SCHEDULER, roles
from rtagent.rpc.casts import BoundedCasts
from rtagent.rpc.transport import get_transport
from rtagent.service.admission import Admission
from rtagent.service.context import NodeContext
from rtagent.service.heartbeat import Heartbeat
from rtagent.service.host_reports import HostReports
from rtagent.service.loop import Loop
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryServiceRegistry
from tests.support.hosts import TOPOLOGY

#: Claims each second on all nodes together.
RATE = 100


class Reporting:
    """One node with its thread of reports. :ivar commits: (host, revision, monotonic time)."""

    def __init__(self, directory: Path, name: str, url: str) -> None:
        directory.mkdir()
        self.commits: list[tuple[str, int, float]] = []
        self.node: EmbeddedNode = agents.node(
            directory, FakeHypervisor(TOPOLOGY, hostname=name), host=name
        )
        self.node.auditor.run("start")
        settings, clock = agents.settings_in(directory, name), SystemClock()
        context = NodeContext(
            settings=SettingsHolder(settings),
            clock=clock,
            reporter=NullReporter(),
            bus=self.node.tracker.bus,
        )
        conf = cfg.ConfigOpts()
        conf([], project="rtagent", default_config_files=[])
        tracker, registry = self.node.tracker, MemoryServiceRegistry()
        admission = Admission(tracker)
        admission.open()
        loop = Loop("host-reports", None, clock, NullReporter())
        reports = HostReports(
            context,
            self.node,
            admission,
            Heartbeat(context, registry, tracker),
            BoundedCasts(get_transport(conf, url), SCHEDULER, roles.AGENT).send,
            tuple,
            loop.wake,
        )
        loop.add("host-reports", reports.turn)
        tracker.listen(self._published)
        loop.start()

    def _published(self, state: NodeState, changes: Sequence[Change]) -> None:
        self.commits.append((state.node.host, state.revision, time.monotonic()))


def main() -> None:
    url, directory, number, seconds = sys.argv[1:]
    nodes = [Reporting(Path(directory) / f"lag-{n}", f"lag-{n}", url) for n in range(int(number))]
    until = time.monotonic() + float(seconds)

    def claim() -> None:
        while time.monotonic() < until:
            call, request = agents.build(memory_mb=1)
            random.choice(nodes).node.tracker.create(instance_claim, call, request)
            time.sleep(4 / RATE)

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(3)  # the last reports
    print(json.dumps([commit for each in nodes for commit in each.commits]), flush=True)


if __name__ == "__main__":
    main()
