"""Who may write for a node: every case of the rule, and what each refusal says."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from rtagent.errors import IdentityError
from rtagent.identity.enrollment import Claimant, enroll
from rtagent.model.node import Node, NodeRecord, Writer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UUID = "11111111-1111-1111-1111-111111111111"
OTHER_UUID = "22222222-2222-2222-2222-222222222222"
NODE = Node(uuid=UUID, host="host1", hypervisor_hostname="hv1", host_ip="192.0.2.1")
WRITER = Writer(machine_id="machine1", boot_id="boot1", state_path="/var/lib/rtagent")
ELSEWHERE = replace(WRITER, machine_id="machine2")
ME = Claimant(
    node=NODE, writer=WRITER, compute_id="/var/lib/rtagent/compute_id", service_down_time=60
)
RECORD = NodeRecord(node=NODE, epoch=7, revision=42, writer=WRITER, last_seen_up=NOW)
MINE = replace(RECORD, epoch=8)


def seen(seconds: int, record: NodeRecord = RECORD) -> NodeRecord:
    return replace(record, last_seen_up=NOW - timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("records", "me", "outcome"),
    [
        pytest.param(
            (), ME, NodeRecord(node=NODE, epoch=1, revision=0, writer=WRITER), id="new node"
        ),
        pytest.param((RECORD,), ME, MINE, id="same machine and directory: at once"),
        pytest.param(
            (replace(RECORD, writer=replace(WRITER, boot_id="boot0")),), ME, MINE, id="rebooted"
        ),
        pytest.param((replace(RECORD, writer=None),), ME, MINE, id="never written"),
        pytest.param(
            (seen(60, replace(RECORD, writer=ELSEWHERE)),),
            ME,
            seen(60, MINE),
            id="the other writer is down",
        ),
        pytest.param(
            (replace(RECORD, writer=ELSEWHERE, last_seen_up=None),),
            ME,
            replace(MINE, last_seen_up=None),
            id="the other writer was never up",
        ),
        pytest.param(
            (replace(RECORD, writer=ELSEWHERE),),
            replace(ME, take_over=True),
            MINE,
            id="the operator takes over",
        ),
        pytest.param((replace(RECORD, deleted_at=NOW),), ME, MINE, id="a removed node comes back"),
        pytest.param(
            (seen(61, replace(RECORD, node=replace(NODE, host="host0"), writer=ELSEWHERE)),),
            ME,
            seen(61, MINE),
            id="adopted from a service host that is down",
        ),
        pytest.param(
            (replace(RECORD, node=replace(NODE, host="host0")),),
            ME,
            MINE,
            id="our own service was renamed",
        ),
        pytest.param(
            (replace(RECORD, node=replace(NODE, uuid=OTHER_UUID), deleted_at=NOW),),
            ME,
            NodeRecord(node=NODE, epoch=1, revision=0, writer=WRITER),
            id="a removed node of the same name",
        ),
    ],
)
def test_writer_is_accepted(records, me, outcome):
    assert enroll(me, NOW)(records) == outcome


@pytest.mark.parametrize(
    ("records", "me", "parts"),
    [
        pytest.param(
            (replace(RECORD, writer=ELSEWHERE),),
            ME,
            ("machine2", "machine1", "seen 0 s ago", "service_down_time (60 s)", "--take-over"),
            id="another machine is alive",
        ),
        pytest.param(
            (seen(59, replace(RECORD, writer=replace(WRITER, state_path="/srv"))),),
            ME,
            ("/srv", "/var/lib/rtagent", "seen 59 s ago"),
            id="another state directory of this machine is alive",
        ),
        pytest.param(
            (replace(RECORD, node=replace(NODE, host="host0"), writer=ELSEWHERE),),
            ME,
            ("host host0", "host host1"),
            id="another service host is alive",
        ),
        pytest.param(
            (replace(RECORD, writer=ELSEWHERE, deleted_at=NOW),),
            ME,
            ("--take-over",),
            id="removed while another writes",
        ),
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
        enroll(me, NOW)(records)

    assert [part for part in parts if part not in str(caught.value)] == []
