"""The turns of the outbox, with a manual clock."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from msgspec.structs import replace

from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.errors import PlacementError, PlacementUnavailable
from rtagent.model.provider_names import provider_uuid
from rtagent.model.request import Flavor
from rtagent.placement.allocation_outbox import (
    BATCHES,
    GATHER,
    GATHER_ROWS,
    LAST_STRICT_RETRY,
    POLL,
    SETTLED,
)
from rtagent.placement.outbox_groups import BATCH
from rtagent.placement.schedule import FIRST_RETRY, LAST_RETRY
from rtagent.testing.placement import MemoryPlacement
from tests.support.agents import GUEST, LARGE, SMALL, facts
from tests.support.allocating_agents import (
    LARGE_RECORD,
    MANAGED,
    RECORD,
    AllocatingAgent,
    OutboxSetup,
    manage,
    settle,
)
from tests.support.hosts import NODE, ManualClock
from tests.support.provider_files import added
from tests.support.trackers import claim, release


@pytest.fixture
def setup():
    setup = OutboxSetup()
    setup.turn()  # compares
    return setup


def test_an_outage_at_the_comparison_ends_even_if_nothing_has_to_be_written():
    setup = OutboxSetup()
    setup.api.failure = PlacementUnavailable("gone")
    setup.turn()
    assert setup.outbox.error is not None
    setup.api.failure = None
    assert setup.turn(LAST_RETRY) == ["tree", "allocations"]
    assert setup.outbox.error is None
    assert setup.reporter.healths[-1][1] == "pass"


@pytest.mark.parametrize("change", ["UPDATE claims SET pcpus = 'x'", "DELETE FROM claims"])
def test_the_allocation_of_a_damaged_claim_is_not_removed(change, tmp_path):
    """The guest still runs, and has what the claim's row said."""
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)
    metadata.create_all(engine)
    setup = OutboxSetup(store=SqlStore(engine))
    made = claim(setup.tracker)
    setup.turn()
    allocated = setup.allocated()
    with engine.begin() as connection:
        connection.exec_driver_sql(change)
    setup.restart()
    assert setup.turn() == ["tree", "allocations"]
    assert setup.allocated() == allocated
    assert setup.turn() == []  # it waits
    assert "damaged or missing" in setup.reporter.healths[-1][2]
    release(setup.tracker, made.uuid)
    setup.turn(LAST_RETRY)
    engine.dispose()
    known = change.startswith("UPDATE")
    assert setup.allocated() == ({} if known else allocated)


def test_an_outage_keeps_the_rows_and_pauses(setup):
    made = claim(setup.tracker)
    setup.api.failure = PlacementUnavailable("gone")
    assert setup.turn() == ["put_consumer"]
    assert setup.turn(FIRST_RETRY / 2) == []
    assert setup.turn(FIRST_RETRY / 2) != []
    assert setup.rows() == {made.owner_id}
    part, status, output = setup.reporter.healths[-1]
    assert (part, status) == ("allocation_outbox", "warn")
    assert "1 allocations are not written" in output
    assert "gone" in output
    setup.api.failure = None
    setup.turn(2 * LAST_RETRY)
    assert setup.allocated() == setup.wanted()
    assert setup.reporter.healths[-1][1] == "pass"
    assert setup.outbox.error is None


def test_a_write_that_placement_executes_late_is_undone(setup):
    made = claim(setup.tracker)
    wanted = setup.wanted()
    setup.api.failure = PlacementUnavailable("no answer")
    assert setup.turn() == ["put_consumer"]
    release(setup.tracker, made.uuid)
    setup.api.failure = None
    setup.turn(LAST_RETRY)
    assert setup.allocated() == {}
    # The request that was given up is executed.
    setup.api.allocate(NODE.uuid, made.owner_id, wanted[made.owner_id])
    assert setup.turn(SETTLED / 4) == []
    setup.turn(SETTLED)
    assert setup.allocated() == {}
    assert setup.turn(GATHER) == setup.turn(10 * SETTLED) == []


def test_a_refused_consumer_waits_alone(setup):
    records = {"MEMORY_MB": {**RECORD, "total": 10**6}, "VCPU": RECORD}
    setup.api.put_inventories(NODE.uuid, 1, records)
    setup.requests()
    large = claim(setup.tracker, root_gb=1)
    small = claim(setup.tracker)
    setup.turn()
    assert setup.allocated().keys() == {small.owner_id}
    assert large.owner_id in setup.reporter.healths[-1][2]
    assert setup.turn(FIRST_RETRY / 2) == []
    release(setup.tracker, large.uuid)
    setup.turn()
    assert setup.outbox.unwritten() == []
    assert setup.outbox.error is None


def test_rows_are_dropped_when_others_manage_allocations(setup):
    setup.api.failure = PlacementUnavailable("gone")
    claim(setup.tracker)
    setup.turn()
    manage(setup.tracker, "no")
    assert setup.rows() == set()
    assert setup.turn(LAST_RETRY) == []
    assert setup.reporter.healths[-1][1] == "pass"


def test_callers_wait_for_their_allocation():
    setup = OutboxSetup("strict")
    made = claim(setup.tracker)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(setup.outbox.wait_written, [made.owner_id], 60)
        assert setup.outbox.due_in == 0
        setup.turn()
        assert written.result(60)
    assert setup.allocated() == setup.wanted()
    setup.api.failure = PlacementError("no answer of Placement")
    other = claim(setup.tracker)
    setup.turn()
    assert not setup.outbox.wait_written([other.owner_id], 0)


def test_rows_are_gathered_if_no_caller_waits_and_rest_while_there_are_no_inventories(setup):
    claim(setup.tracker)
    assert setup.outbox.due_in == GATHER_ROWS
    setup.ready = False
    setup.turn(GATHER_ROWS)
    assert setup.outbox.due_in == POLL


def test_a_large_backlog_takes_several_turns(setup):
    setup.ready = False
    policy = replace(setup.tracker.snapshot().policy, cpu_allocation_ratio=Decimal(1000))
    setup.tracker.set_policy(policy)
    for _ in range(BATCHES * BATCH + 1):
        claim(setup.tracker, memory_mb=1)
    setup.ready = True
    setup.api.put_inventories(NODE.uuid, 1, dict.fromkeys(("VCPU", "MEMORY_MB"), LARGE_RECORD))
    setup.turn()
    assert len(setup.outbox.unwritten()) == 1
    assert setup.outbox.due_in == 0
    setup.turn()
    assert setup.outbox.unwritten() == []


def test_pauses_are_short_while_callers_wait():
    setup = OutboxSetup("strict")
    setup.turn()
    setup.api.failure = PlacementUnavailable("gone")
    claim(setup.tracker)
    for _ in range(10):
        assert setup.turn(LAST_STRICT_RETRY) != []
    setup.api.failure = None
    setup.turn(LAST_STRICT_RETRY)
    assert setup.allocated() == setup.wanted()


def test_after_a_reload_of_the_store_rows_are_written_again(setup):
    """The reloaded rows may be others with the same revisions."""
    claim(setup.tracker)
    setup.turn()
    setup.outbox.listener(setup.tracker.snapshot(), ())
    assert "consumer" in setup.turn()  # what is compared may have been written before
    assert setup.allocated() == setup.wanted()


def test_a_row_that_came_meanwhile_stays(setup):
    made = claim(setup.tracker)
    setup.turn()
    release(setup.tracker, made.uuid)  # after the write, before the removal
    setup.api.failure = PlacementUnavailable("gone")
    setup.turn(GATHER)
    assert setup.rows() == {made.owner_id}
    setup.api.failure = None
    setup.turn(LAST_RETRY)
    assert setup.allocated() == {}


def test_a_class_that_was_withdrawn_while_it_was_claimed_is_given_back():
    api = MemoryPlacement()
    offers = replace(MANAGED.placement, additional=(added("CUSTOM_FOO", "dev", reserved=0),))
    agent = AllocatingAgent(1, api, ManualClock(), replace(MANAGED, placement=offers))
    agent.publish()
    dev = provider_uuid(agent.node, offers, "dev")
    api.create_provider(dev, "h1.example_dev", agent.node.uuid)
    api.ensure_classes(["CUSTOM_FOO"])
    api.put_inventories(dev, 0, {"CUSTOM_FOO": RECORD})
    made = agent.run(Flavor(vcpus=1, memory_mb=64, extra_specs={"resources:CUSTOM_FOO": "2"}))
    settle(agent)
    assert agent.usage()["CUSTOM_FOO"] == 2
    agent.tracker.set_policy(MANAGED)
    settle(agent)
    agent.release(made)
    settle(agent)
    assert agent.found() == {}


def test_a_migration_that_shares_everything_after_a_reload_has_nothing_allocated():
    agent = AllocatingAgent(1, MemoryPlacement(), ManualClock())
    agent.publish()
    agent.run(SMALL)
    move = facts()
    agent.claim_move(move, LARGE)
    settle(agent)
    assert agent.found().keys() == {GUEST, move.uuid}
    agent.tracker.set_policy(replace(MANAGED, same_host_resize_reuse=True))
    settle(agent, agent)
    assert agent.found() == agent.wanted()
    assert agent.found().keys() == {GUEST}


@pytest.mark.parametrize("kind", ["resize", "migration", "live-migration"])
@pytest.mark.parametrize("first", ["source", "dest"])
def test_at_every_step_of_a_move_consumers_have_what_nova_allocates(kind, first):
    api, clock = MemoryPlacement(), ManualClock()
    source, dest = agents = [AllocatingAgent(number, api, clock) for number in (1, 2)]
    old = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 1}
    new = {"VCPU": 2, "MEMORY_MB": 3072, "DISK_GB": 2} if kind == "resize" else old

    def check(*expected):
        """Assert what each consumer has on each host, whoever writes first."""
        settle(*agents)
        settle(*agents[::-1])
        for agent, wanted in zip(agents, expected, strict=True):
            assert agent.found() == {uuid: {agent.node.uuid: has} for uuid, has in wanted.items()}
            assert agent.usage() == sum(map(Counter, wanted.values()), Counter())

    for agent in agents:
        agent.publish()
    source.run(SMALL)
    move = facts(kind)
    dest.claim_move(move, LARGE if kind == "resize" else SMALL)
    if first == "dest":
        check({GUEST: old}, {GUEST: new})
    source.move("start_move_out", move)
    check({move.uuid: old}, {GUEST: new})
    dest.move("finish_move", move)
    check({move.uuid: old}, {GUEST: new})
    source.move("drop_move_claim_at_source", move)
    check({}, {GUEST: new})
