"""Random lives of guests on two hosts: a consumer that folds the events has the hosts' claims."""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from rtagent.model.change import ANNOUNCEMENT
from rtagent.model.event import AUDIT_END, EVENT_TYPES, EventDocument
from tests.support.agents import LARGE, LEASE, SMALL, Agent, pinned, with_devices
from tests.support.allocating_agents import CHOICES, GUESTS, HOSTS, Lives
from tests.support.event_consumer import ANNOUNCED, folded
from tests.support.hosts import ManualClock
from tests.support.pci_hosts import GPU_0, GPU_1


class NoLog:
    """An event log that nobody reads, because the outcome of every commit is known."""

    def read(self, *_):
        raise AssertionError


NO_LOG = NoLog()


def documents(agent: Agent) -> list[dict]:
    """The events of a host, checked against the types that the schemas are made of."""
    rows = agent.disk.node(agent.node.uuid).notifications
    events = [event for row in rows for event in msgspec.json.decode(row.document)]
    for event in events:
        msgspec.convert(event["payload"], EVENT_TYPES[event["event_type"]].payload)
        assert event.keys() == set(EventDocument.__struct_fields__)
    return events


class Reported(Lives[Agent]):
    flavors = (SMALL, LARGE, pinned(2), with_devices("gpu:1"))

    @initialize()
    def begin(self):
        clock = ManualClock()
        self.hosts = [Agent(n, clock=clock, gpus=(GPU_0, GPU_1)) for n in (1, 2)]

    @rule(host=HOSTS, guest=GUESTS, choice=CHOICES)
    def build(self, host, guest, choice):
        self.attempt(lambda: self.hosts[host].build(self.flavor(choice), guest))

    @rule(host=HOSTS, guest=GUESTS, state=st.sampled_from(["active", "stopped", "deleted"]))
    def update(self, host, guest, state):
        self.attempt(lambda: self.hosts[host].update(state, owner=guest))

    @rule(host=HOSTS, seconds=st.sampled_from([1, LEASE + 1]))
    def audit(self, host, seconds):
        self.hosts[host].clock.advance(seconds)
        self.attempt(self.hosts[host].audit)

    @rule(host=HOSTS)
    def vanish(self, host):
        """Every domain of the host disappears: its claims become suspect."""
        self.hosts[host].world.domains.clear()
        self.attempt(self.hosts[host].audit)

    @rule(host=HOSTS)
    def announce(self, host):
        """An event without a change takes a number, and no revision."""
        tracker = self.hosts[host].tracker
        revision = tracker.snapshot().revision
        tracker.announcements.add(ANNOUNCED)
        assert tracker.announcements.write(1, NO_LOG) == 1
        assert tracker.snapshot().revision == revision

    @invariant()
    def events_lead_to_the_claims(self):
        for host in self.hosts:
            events = documents(host)
            sequences = [event["sequence"] for event in events]
            assert sequences == list(range(1, len(events) + 1))
            assert host.state.event_sequence == host.stored.event_sequence == len(events)
            revisions = [event["revision"] for event in events]
            assert (
                revisions == sorted(revisions) and max(revisions, default=0) <= host.state.revision
            )
            assert all(e["cause"] == ANNOUNCEMENT for e in events if e["event_type"] == AUDIT_END)
            assert folded(events) == {
                claim.uuid: (
                    claim.owner_id,
                    claim.state,
                    claim.vcpus,
                    claim.pcpus,
                    claim.memory_mb,
                    claim.disk_mb,
                    claim.suspect,
                    tuple(sorted(claim.numa_topology.taken)) if claim.numa_topology else (),
                    tuple(device.address for device in claim.pci),
                    tuple(unit.identifier for unit in claim.resources),
                )
                for claim in host.state.claims.values()
            }


TestLives = Reported.TestCase
TestLives.settings = settings(stateful_step_count=40)
