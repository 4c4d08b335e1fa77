"""Why the row of a node is not there, or not as expected."""

from __future__ import annotations

from typing import NoReturn

from sqlalchemy import Connection, select

from rtagent.db.schema import compute_nodes
from rtagent.errors import RevisionConflict, StoreUnavailable, WriterFenced


def no_such_node(node_uuid: str) -> StoreUnavailable:
    """Return the error for a node that the database does not have."""
    return StoreUnavailable(f"the database has no node {node_uuid}")


def raise_conflict(connection: Connection, node_uuid: str, epoch: int) -> NoReturn:
    """Raise the reason why an update did not match the row of a node."""
    node = compute_nodes.c
    query = select(node.epoch, node.revision).where(node.uuid == node_uuid)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise no_such_node(node_uuid)
    if row.epoch > epoch:
        raise WriterFenced(node_uuid=node_uuid, ours=epoch, theirs=row.epoch)
    raise RevisionConflict(
        f"node {node_uuid} is at epoch {row.epoch} and revision {row.revision}, not at ours"
    )
