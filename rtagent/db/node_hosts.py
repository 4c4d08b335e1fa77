"""The hosts of nodes: of those in ``compute_nodes``, and of others the rows of ``node_hosts``.

An agent with a database of its own has no row in ``compute_nodes`` of the schedulers. So a
scheduler records which host's key has reported a node first, and a restart does not forget it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Engine, delete, insert, select

from rtagent.db.schema import compute_nodes, node_hosts
from rtagent.db.transaction import Transactions
from rtagent.model.node import NodeHost


class NodeHosts:
    """The rows of an engine of `open_engine`. All methods raise `StoreUnavailable`."""

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)

    def registered(self, node_uuid: str) -> NodeHost | None:
        """Return the host of a node as its own agent has written it; None: it has not."""
        columns = compute_nodes.c.host, compute_nodes.c.epoch
        query = select(*columns).where(
            compute_nodes.c.uuid == node_uuid, compute_nodes.c.deleted_at.is_(None)
        )
        with self._transactions.query() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else NodeHost(host=row.host, epoch=row.epoch)

    def recorded(self, node_uuid: str) -> str | None:
        """Return the host that is recorded for a node; None: there is none."""
        query = select(node_hosts.c.host).where(node_hosts.c.node_uuid == node_uuid)
        with self._transactions.query() as connection:
            host: str | None = connection.scalar(query)
        return host

    def record(self, node_uuid: str, host: str, now: datetime, most: int) -> Sequence[str]:
        """Record the host of a node, in place of another one. Of more than `most` nodes of the
        host, forget those that were recorded first, and return their uuids.
        """
        row = {"node_uuid": node_uuid, "host": host, "recorded_at": now}
        others = (
            select(node_hosts.c.node_uuid)
            .where(node_hosts.c.host == host)
            .order_by(node_hosts.c.recorded_at.desc())
            .offset(most)
            .limit(1000)
        )
        with self._transactions.write_repeatable() as connection:
            connection.execute(delete(node_hosts).where(node_hosts.c.node_uuid == node_uuid))
            connection.execute(insert(node_hosts).values(row))
            forgotten = connection.scalars(others).all()
            connection.execute(delete(node_hosts).where(node_hosts.c.node_uuid.in_(forgotten)))
        return forgotten
