"""Which process may write for a node: the rule that `Store.enroll` applies inside its transaction.

Nothing is written before the rule accepts. Each refusal names the fault, its place and the remedy.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from rtagent.errors import IdentityError, TakeoverPending
from rtagent.model.base import Value
from rtagent.model.node import Node, NodeRecord, Writer
from rtagent.ports import Enroll


class Claimant(Value, frozen=True, kw_only=True):
    """The process that requests to become the node's writer.

    :ivar writer: this process, which has the file lock of its state directory.
    :ivar compute_id: the path of the file that contains the node's uuid.
    :ivar new: there is no such file, and the uuid is a new one.
    :ivar service_down_time: seconds after which another writer counts as down.
    :ivar take_over: the operator has confirmed that the other writer is gone.
    """

    node: Node
    writer: Writer
    compute_id: str
    new: bool = False
    service_down_time: int
    take_over: bool = False


class HeartbeatWatch:
    """Watches the heartbeat of a node's writer, from one attempt to enroll to the next.

    The time of day is not used, because the clocks of two machines may differ by days. A heartbeat
    that changes shows that its agent runs. One that does not change for `service_down_time` shows
    that its agent is down, or cannot write.
    """

    def __init__(self) -> None:
        self._first: NodeRecord | None = None
        self._since = 0.0

    def look(self, record: NodeRecord, now: float) -> float | None:
        """Return the seconds for which the heartbeat has not changed; None: it has changed.

        :param now: seconds of the monotonic clock.
        """
        first = self._first
        if first is None or first.node.uuid != record.node.uuid:
            self._first, self._since = record, now
            return 0.0
        seen = (record.writer, record.epoch, record.report_count)
        if seen != (first.writer, first.epoch, first.report_count):
            self._first = None
            return None
        return now - self._since


def enroll(me: Claimant, watch: HeartbeatWatch, now: float, at: datetime | None = None) -> Enroll:
    """Return the rule for this claimant.

    :param watch: the same for all attempts of a process. :param now: seconds of the monotonic
        clock. :param at: the time of day, at which a reboot is noticed.
    :raises TakeoverPending: from the rule: watch the heartbeat of another writer for longer.
    """

    def rule(records: Sequence[NodeRecord]) -> NodeRecord:
        _refuse_duplicate(me, records)
        ours = next((r for r in records if r.node.uuid == me.node.uuid), None)
        if ours is None:
            return NodeRecord(node=me.node, epoch=1, revision=0, writer=me.writer)
        _refuse_rename(me, ours)
        if not me.take_over:
            _refuse_while_alive(me, ours, watch, now)
        # Undeletes a removed node, and adopts a node that another service host served.
        return replace(
            ours,
            node=me.node,
            writer=me.writer,
            epoch=ours.epoch + 1,
            deleted_at=None,
            rebooted_at=at if at and _rebooted(ours.writer, me.writer) else ours.rebooted_at,
        )

    return rule


def _rebooted(before: Writer | None, now: Writer) -> bool:
    """Return whether the machine was started anew since its agent enrolled."""
    if before is None or before.machine_id != now.machine_id:
        return False
    return before.boot_id not in ("", now.boot_id)


def _refuse_duplicate(me: Claimant, records: Sequence[NodeRecord]) -> None:
    """A second uuid for one hypervisor would split its claims between two nodes."""
    name = me.node.hypervisor_hostname
    for record in records:
        other = record.node
        if other.uuid == me.node.uuid or other.hypervisor_hostname != name or record.deleted_at:
            continue
        file = "is missing" if me.new else f"contains {me.node.uuid}"
        raise IdentityError(
            f"hypervisor {name} is recorded as node {other.uuid} (service host {other.host}), but"
            f" {me.compute_id} {file}. If that file was lost or replaced, write"
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


def _refuse_while_alive(me: Claimant, ours: NodeRecord, watch: HeartbeatWatch, now: float) -> None:
    other = ours.writer
    if other is None or _same_place(other, me.writer):
        return
    silent = watch.look(ours, now)
    theirs, mine = _named(ours.node.host, other), _named(me.node.host, me.writer)
    if silent is None:
        raise IdentityError(
            f"node {me.node.uuid} is written by another agent: {theirs}, which sent a heartbeat"
            f" while this one watched; this one is {mine}. Stop the other one, or, if you know that"
            " it is gone, start with --take-over"
        )
    if silent < me.service_down_time:
        raise TakeoverPending(
            f"node {me.node.uuid} may be written by another agent: {theirs}; this one is {mine}. It"
            " takes the node over when the other one has not sent a heartbeat for service_down_time"
            f" ({me.service_down_time} s; {int(silent)} s are over), or at once with --take-over"
        )


def _same_place(other: Writer, mine: Writer) -> bool:
    """Return whether both processes use the same state directory of the same machine.

    This process has the file lock of that directory, which proves that the other process has ended.
    """
    return (other.machine_id, other.state_path) == (mine.machine_id, mine.state_path)


def _named(host: str, writer: Writer) -> str:
    return f"host {host}, machine {writer.machine_id}, state directory {writer.state_path}"
