"""The nodes of a database, for operators' commands."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Engine, func, select, update

from rtagent.db.node_rows import decode_record, record_query
from rtagent.db.schema import claims, compute_nodes
from rtagent.db.transaction import Transactions
from rtagent.errors import NodeNotFound, StoreUnavailable
from rtagent.model.claim import LIVE_STATES
from rtagent.model.node import NodeRecord

#: A rule that gets a record and the number of live claims of its node. It raises an `RtAgentError`
#: to prevent the removal.
Rule = Callable[[NodeRecord, int], None]


class SqlNodes:
    """The node records of an engine of `open_engine`. All methods raise `StoreUnavailable`."""

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)

    def records(self) -> tuple[NodeRecord, ...]:
        """Return all records, including removed ones, by hypervisor_hostname."""
        query = record_query().order_by(compute_nodes.c.hypervisor_hostname, compute_nodes.c.uuid)
        with self._transactions.query() as connection:
            return tuple(map(decode_record, connection.execute(query)))

    def remove(self, uuid: str, rule: Rule, now: datetime, *, dry_run: bool = False) -> NodeRecord:
        """Mark a node's record as removed. Its rows stay. Return the record as it was before.

        The epoch is raised, so that a writer that starts at this moment is fenced.

        :param dry_run: only evaluate the rule.

        :raises NodeNotFound: there is no such record, or it was removed already.
        :raises RtAgentError: from the rule.
        """
        node = compute_nodes.c
        with self._transactions.write_repeatable(serial=True) as connection:
            row = connection.execute(
                record_query().where(node.uuid == uuid, node.deleted_at.is_(None))
            ).one_or_none()
            if row is None:
                raise NodeNotFound(node=uuid, served="none of that uuid")
            record = decode_record(row)
            live = claims.c.node_uuid == uuid, claims.c.state.in_(sorted(LIVE_STATES))
            rule(record, connection.scalars(select(func.count()).where(*live)).one())
            if dry_run:
                return record
            removal = (
                update(compute_nodes)
                .where(node.uuid == uuid, node.epoch == record.epoch)
                .values(deleted_at=now, epoch=node.epoch + 1)
            )
            if connection.execute(removal).rowcount != 1:
                raise StoreUnavailable(f"an agent took node {uuid} over at the same moment")
        return record
