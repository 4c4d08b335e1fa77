"""HostManager with many threads: readers see whole states, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable

from msgspec.structs import replace

from rtagent.ports import NullReporter
from rtagent.scheduler.host_manager import HostManager
from tests.support.host_states import aggregate
from tests.support.hosts import ManualClock, host, request, uid
from tests.support.reporting_agents import ReportingAgent, assumable, deliver

ROUNDS = 150


def test_reports_selections_and_readers_at_the_same_time():
    manager = HostManager(ManualClock(), NullReporter(), lambda _: None)
    agents = [ReportingAgent(f"cn{number}") for number in range(3)]
    for agent in agents:
        deliver(manager, *agent.messages())
    template = assumable(host(cpu_allocation_ratio=16), request(1, 8, 1))
    assert template is not None
    kept: list[str] = []
    failures: list[BaseException] = []

    def select(agent: ReportingAgent) -> None:
        for number in range(ROUNDS):
            claim = replace(template, uuid=uid(), owner_id=uid(), node_uuid=agent.uuid)
            after = manager.assume(agent.uuid, claim, here=True)
            assert claim.owner_id in after.instances_here
            if number % 10:
                manager.forget_claim(claim.uuid)
            else:
                manager.assumed_until([claim.uuid], 1000)
                kept.append(claim.uuid)

    def report() -> None:
        for number in range(ROUNDS):
            for agent in agents:
                deliver(manager, agent.report(revision=number), agent.digest())
            manager.set_aggregates([aggregate("a", "cn0", k=str(number))])
            manager.tick()

    def read() -> None:
        for _ in range(ROUNDS * 3):
            for seen in manager.get_all_host_states():
                assert seen.vcpus_used == len(seen.instances) == seen.num_instances
                assert seen.free_ram_mb == 16384 - 8 * seen.vcpus_used

    def run(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:
            failures.append(error)

    acts = [report, read, read, *(lambda a=agent: select(a) for agent in agents)]
    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert sum(each.vcpus_used for each in manager.get_all_host_states()) == len(kept)
    for uuid in kept:
        manager.forget_claim(uuid)
    assert all(each.vcpus_used == 0 for each in manager.get_all_host_states())
    assert len({each.version for each in manager.get_all_host_states()}) == len(agents)
