"""Who may write for a node: every case of the rule, and what each refusal says."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from rtagent.errors import IdentityError, TakeoverPending
from rtagent.identity.enrollment import Claimant, HeartbeatWatch, enroll
from rtagent.model.node import Node, NodeRecord, Writer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UUID = "11111111-1111-1111-1111-111111111111"
OTHER_UUID = "22222222-2222-2222-2222-222222222222"
NODE = Node(uuid=UUID, host="host1", hypervisor_hostname="hv1", host_ip="192.0.2.1")
WRITER = Writer(machine_id="machine1", boot_id="boot1", state_path="/var/lib/rtagent")
ELSEWHERE = replace(WRITER, machine_id="machine2")
FILE = "/var/lib/rtagent/compute_id"
ME = Claimant(node=NODE, writer=WRITER, compute_id=FILE, service_down_time=60)
RECORD = NodeRecord(node=NODE, epoch=7, revision=42, writer=WRITER, report_count=5)
MINE = replace(RECORD, epoch=8)


STILL = 60.0
DAY = timedelta(days=1)


def watched(records: Sequence[NodeRecord]) -> HeartbeatWatch:
    """A watch that has seen the heartbeat of our node for the first time at 0 s."""
    watch = HeartbeatWatch()
    for record in records:
        if record.node.uuid == UUID:
            watch.look(record, 0.0)
    return watch


@pytest.mark.parametrize(
    "before",
    [
        {},
        {"writer": replace(WRITER, boot_id="boot0")},
        {"writer": None},
        {"writer": ELSEWHERE},
        {"deleted_at": NOW},
        {"node": replace(NODE, host="host0"), "writer": ELSEWHERE},
        {"node": replace(NODE, host="host0")},
    ],
    ids=[
        *("same machine and directory: at once", "rebooted", "never written"),
        *("the other writer is down", "a removed node comes back"),
        *("adopted from a service host that is down", "our own service was renamed"),
    ],
)
def test_writer_of_a_recorded_node_is_accepted(before):
    records = (replace(RECORD, **before),)
    assert enroll(ME, watched(records), STILL)(records) == MINE


@pytest.mark.parametrize(
    "records",
    [(), (replace(RECORD, node=replace(NODE, uuid=OTHER_UUID), deleted_at=NOW),)],
    ids=["new", "a removed node of the same name"],
)
def test_writer_of_a_new_node_is_accepted(records):
    expected = NodeRecord(node=NODE, epoch=1, revision=0, writer=WRITER)
    assert enroll(ME, watched(records), STILL)(records) == expected


@pytest.mark.parametrize(
    ("records", "me", "parts"),
    [
        pytest.param(
            (replace(RECORD, node=replace(NODE, hypervisor_hostname="hv0")),),
            replace(ME, take_over=True),
            ("hv0", "hv1", "/var/lib/rtagent/compute_id", "rename it back"),
            id="the machine was renamed",
        ),
        pytest.param(
            (replace(RECORD, node=replace(NODE, uuid=OTHER_UUID)),),
            replace(ME, take_over=True),
            (UUID, OTHER_UUID, "/var/lib/rtagent/compute_id", f"rtagent node remove {OTHER_UUID}"),
            id="the file was lost, or another machine has our name",
        ),
        pytest.param(
            (RECORD, replace(RECORD, node=replace(NODE, uuid=OTHER_UUID))),
            ME,
            (OTHER_UUID,),
            id="ours is there, and a duplicate of it",
        ),
    ],
)
def test_writer_is_refused(records, me, parts):
    with pytest.raises(IdentityError) as caught:
        enroll(me, HeartbeatWatch(), 0.0)(records)

    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize("removed", [None, NOW])
@pytest.mark.parametrize(
    ("writer", "node", "parts"),
    [
        (ELSEWHERE, NODE, ("machine2", "machine1")),
        (replace(WRITER, state_path="/srv"), NODE, ("/srv", "/var/lib/rtagent")),
        (ELSEWHERE, replace(NODE, host="host0"), ("host host0", "host host1")),
    ],
    ids=["another machine", "another state directory of this machine", "another host"],
)
def test_other_writer_is_watched_before_its_node_is_taken_over(writer, node, parts, removed):
    other = replace(RECORD, writer=writer, node=node, deleted_at=removed)
    watch = HeartbeatWatch()
    for seconds in (0, 59):
        with pytest.raises(TakeoverPending) as pending:
            enroll(ME, watch, 1000.0 + seconds)((other,))
        expected = (*parts, f"60 s; {seconds} s are over", "--take-over")
        assert [part for part in expected if part not in str(pending.value)] == []
    assert enroll(ME, watch, 1060.0)((other,)).epoch == 8


@pytest.mark.parametrize(
    ("before", "rebooted"),
    [
        (WRITER, False),
        (replace(WRITER, boot_id="boot0"), True),
        (replace(WRITER, boot_id=""), False),
        (None, False),
    ],
    ids=["restarted", "rebooted", "unknown", "never written"],
)
def test_reboot_is_told_from_a_restart_by_the_boot_id(before: Writer | None, rebooted: bool):
    records = (replace(RECORD, writer=before, rebooted_at=NOW - DAY),)
    found = enroll(ME, watched(records), STILL, NOW)(records)
    assert found.rebooted_at == (NOW if rebooted else NOW - DAY)
