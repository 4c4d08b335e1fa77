"""The nodes of a database, for those who look after it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, and_, func, select, update

from rtagent.db import codec
from rtagent.db.registry import BINARY
from rtagent.db.schema import claims, compute_nodes, services
from rtagent.db.transaction import Transactions
from rtagent.errors import NodeNotFound, StoreUnavailable
from rtagent.model.claim import LIVE_STATES
from rtagent.model.node import NodeRecord

#: Raises an `RtAgentError` to keep a record; given it and how many live claims its node has.
Rule = Callable[[NodeRecord, int], None]


class SqlNodes:
    """On an engine of `open_engine`. All methods raise `StoreUnavailable`."""

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)

    def records(self) -> tuple[NodeRecord, ...]:
        """Every record, removed ones too, by hypervisor_hostname."""
        query = _records().order_by(compute_nodes.c.hypervisor_hostname, compute_nodes.c.uuid)
        with self._transactions.look() as connection:
            return tuple(map(codec.record, connection.execute(query)))

    def remove(self, uuid: str, rule: Rule, now: datetime) -> NodeRecord:
        """Mark a node's record as removed; its rows stay. Returns the record as it was.

        The epoch is raised, so that a writer that comes up at this moment is fenced.

        :raises NodeNotFound: there is none, or it has been removed. Whatever the rule raises.
        """
        node = compute_nodes.c
        with self._transactions.rewrite(serial=True) as connection:
            row = connection.execute(
                _records().where(node.uuid == uuid, node.deleted_at.is_(None))
            ).one_or_none()
            if row is None:
                raise NodeNotFound(node=uuid, served="none of that uuid")
            record = codec.record(row)
            live = claims.c.node_uuid == uuid, claims.c.state.in_(sorted(LIVE_STATES))
            rule(record, connection.scalars(select(func.count()).where(*live)).one())
            removal = (
                update(compute_nodes)
                .where(node.uuid == uuid, node.epoch == record.epoch)
                .values(deleted_at=now, epoch=node.epoch + 1)
            )
            if connection.execute(removal).rowcount != 1:
                raise StoreUnavailable(f"node {uuid} was taken over at this moment")
        return record


def _records() -> Any:
    service = and_(services.c.host == compute_nodes.c.host, services.c.binary == BINARY)
    return select(compute_nodes, services.c.last_seen_up).join_from(
        compute_nodes, services, service, isouter=True
    )
