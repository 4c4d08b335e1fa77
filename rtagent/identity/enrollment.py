"""Which process may write for a node: the rule that `Store.enroll` applies inside its transaction.

Nothing is written before the rule accepts. Each refusal names the fault, its place and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from rtagent.errors import IdentityError
from rtagent.model.base import Value
from rtagent.model.node import Node, NodeRecord, Writer
from rtagent.ports import Enroll


class Claimant(Value, frozen=True, kw_only=True):
    """The process that requests to become the node's writer.

    :ivar writer: this process, which has the file lock of its state directory.
    :ivar compute_id: the path of the file that contains the node's uuid.
    :ivar service_down_time: seconds after which another writer counts as down.
    :ivar take_over: the operator has confirmed that the other writer is gone.
    """

    node: Node
    writer: Writer
    compute_id: str
    service_down_time: int
    take_over: bool = False


def enroll(me: Claimant, now: datetime) -> Enroll:
    """Return the rule for this claimant at this time."""

    def rule(records: Sequence[NodeRecord]) -> NodeRecord:
        _refuse_duplicate(me, records)
        ours = next((r for r in records if r.node.uuid == me.node.uuid), None)
        if ours is None:
            return NodeRecord(node=me.node, epoch=1, revision=0, writer=me.writer)
        _refuse_rename(me, ours)
        if not me.take_over:
            _refuse_while_alive(me, ours, now)
        # Undeletes a removed node, and adopts a node that another service host served.
        return replace(ours, node=me.node, writer=me.writer, epoch=ours.epoch + 1, deleted_at=None)

    return rule


def _refuse_duplicate(me: Claimant, records: Sequence[NodeRecord]) -> None:
    """A second uuid for one hypervisor would split its claims between two nodes."""
    name = me.node.hypervisor_hostname
    for record in records:
        other = record.node
        if other.uuid == me.node.uuid or other.hypervisor_hostname != name or record.deleted_at:
            continue
        raise IdentityError(
            f"hypervisor {name} is recorded as node {other.uuid} (service host {other.host}), but"
            f" {me.compute_id} contains {me.node.uuid}. If that file was lost or replaced, write"
            f" {other.uuid} into it; if it is another machine, give this one a host name of its"
            f" own; if the record is obsolete, remove it: rtagent node remove {other.uuid}"
        )


def _refuse_rename(me: Claimant, ours: NodeRecord) -> None:
    recorded, found = ours.node.hypervisor_hostname, me.node.hypervisor_hostname
    if recorded == found:
        return
    raise IdentityError(
        f"node {me.node.uuid} ({me.compute_id}) is recorded as hypervisor {recorded}, but libvirt"
        f" calls this machine {found}. If it was renamed, rename it back; if the state directory"
        f" was copied from {recorded}, delete {me.compute_id} here and start again as a new node"
    )


def _refuse_while_alive(me: Claimant, ours: NodeRecord, now: datetime) -> None:
    other = ours.writer
    if other is None or _same_place(other, me.writer) or ours.last_seen_up is None:
        return
    silent = now - ours.last_seen_up
    if silent >= timedelta(seconds=me.service_down_time):
        return
    raise IdentityError(
        f"node {me.node.uuid} is written by another agent: {_named(ours.node.host, other)}, seen"
        f" {max(0, int(silent.total_seconds()))} s ago; this one is"
        f" {_named(me.node.host, me.writer)}. Stop the other one, or wait until its last heartbeat"
        f" is older than service_down_time ({me.service_down_time} s), or, if you know that it is"
        " gone, start with --take-over"
    )


def _same_place(other: Writer, mine: Writer) -> bool:
    """Return whether both processes use the same state directory of the same machine.

    This process has the file lock of that directory, which proves that the other process has ended.
    """
    return (other.machine_id, other.state_path) == (mine.machine_id, mine.state_path)


def _named(host: str, writer: Writer) -> str:
    return f"host {host}, machine {writer.machine_id}, state directory {writer.state_path}"
