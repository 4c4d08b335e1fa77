"""Allocations of guests that move between two hosts: at every step those that Nova has."""

from collections import Counter

import pytest

from rtagent.testing.placement import MemoryPlacement
from tests.support.agents import GUEST, LARGE, SMALL, facts
from tests.support.allocating_agents import AllocatingAgent, settle
from tests.support.hosts import ManualClock, uid

OLD = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 1}
NEW = {"VCPU": 2, "MEMORY_MB": 3072, "DISK_GB": 2}
NONE: dict[str, int] = {}


@pytest.fixture
def hosts():
    """A host with a guest, and another host."""
    api, clock = MemoryPlacement(), ManualClock()
    agents = [AllocatingAgent(number, api, clock) for number in (1, 2)]
    for agent in agents:
        agent.publish()
    return agents


class Story:
    """A guest on the first host, whose allocations are written after each call."""

    def __init__(self, hosts, guest):
        self.hosts, self.guest = hosts, guest
        hosts[0].run(SMALL, guest)
        self.check({guest: OLD}, {})

    def check(self, *expected):
        """Assert what each consumer has on each host, whoever writes first."""
        for agents in (self.hosts, self.hosts[::-1]):
            settle(*agents)
        for agent, wanted in zip(self.hosts, expected, strict=False):
            found = {uuid: parts[agent.node.uuid] for uuid, parts in agent.found().items()}
            assert found == wanted
            sums = Counter[str]()
            for resources in wanted.values():
                sums.update(resources)
            assert agent.usage() == sums


@pytest.fixture
def story(hosts):
    return Story(hosts, uid())


@pytest.mark.parametrize("kind", ["resize", "migration", "live-migration"])
@pytest.mark.parametrize("first", ["source", "dest"])
def test_a_confirmed_move(story, kind, first):
    guest, (source, dest) = story.guest, story.hosts
    new = (LARGE, NEW) if kind == "resize" else (SMALL, OLD)
    move = facts(kind)
    dest.claim_move(move, new[0], guest)
    if first == "dest":
        story.check({guest: OLD}, {guest: new[1]})
    source.move("start_move_out", move, guest)
    story.check({move.uuid: OLD}, {guest: new[1]})
    dest.move("finish_move", move, guest)
    story.check({move.uuid: OLD}, {guest: new[1]})
    source.move("drop_move_claim_at_source", move, guest)
    story.check({}, {guest: new[1]})


def test_a_reverted_move(story):
    guest, (source, dest) = story.guest, story.hosts
    move = facts()
    dest.claim_move(move, LARGE, guest)
    source.move("start_move_out", move, guest)
    dest.move("finish_move", move, guest)
    story.check({move.uuid: OLD}, {guest: NEW})
    dest.move("drop_move_claim_at_dest", move, guest)
    story.check({move.uuid: OLD}, {})
    source.move("finish_revert", move, guest)
    story.check({guest: OLD}, {})


def test_a_failed_move(story):
    guest, (source, dest) = story.guest, story.hosts
    move = facts("live-migration")
    dest.claim_move(move, SMALL, guest)
    source.move("start_move_out", move, guest)
    story.check({move.uuid: OLD}, {guest: OLD})
    source.move("drop_move_claim", move, guest)
    story.check({guest: OLD}, {guest: OLD})
    dest.move("drop_move_claim", move, guest)
    story.check({guest: OLD}, {})


def test_an_evacuation(story):
    guest, (source, dest) = story.guest, story.hosts
    move = facts("evacuation")
    dest.claim_move(move, SMALL, guest)
    story.check({guest: OLD}, {guest: OLD})
    dest.move("finish_evacuation", move, guest)
    story.check({guest: OLD}, {guest: OLD})
    source.move("drop_move_claim_at_source", move, guest)
    story.check({}, {guest: OLD})


@pytest.mark.parametrize("end", ["confirm", "revert"])
def test_a_resize_on_one_host(story, end):
    guest, (host, _) = story.guest, story.hosts
    move = facts()
    host.claim_move(move, LARGE, guest)
    story.check({move.uuid: OLD, guest: NEW}, {})
    host.move("start_move_out", move, guest)
    host.move("finish_move", move, guest)
    story.check({move.uuid: OLD, guest: NEW}, {})
    if end == "confirm":
        host.move("drop_move_claim_at_source", move, guest)
        story.check({guest: NEW}, {})
    else:
        host.move("drop_move_claim_at_dest", move, guest)
        host.move("finish_revert", move, guest)
        story.check({guest: OLD}, {})


def test_a_deleted_guest_that_moves_leaves_nothing(story):
    guest, (source, dest) = story.guest, story.hosts
    move = facts()
    dest.claim_move(move, LARGE, guest)
    source.move("start_move_out", move, guest)
    for agent in (source, dest):
        agent.update("deleted", owner=guest)
    story.check({}, {})


def test_a_resize_on_one_host_moves_the_old_part_in_one_request():
    api = MemoryPlacement()
    host = AllocatingAgent(1, api, ManualClock())
    host.publish()
    host.run(SMALL)
    settle(host)
    api.requests.clear()
    host.claim_move(facts(), LARGE, GUEST)
    host.outbox.turn()
    assert api.requests == ["post_consumers"]
