"""The column ``metrics`` of a node's row, which commits do not write."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine, update

from rtagent.db.schema import compute_nodes, to_document
from rtagent.db.transaction import Transactions
from rtagent.model.metric import Metric, documents


class NodeMetrics:
    """Writes what compute monitors have measured. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)

    def write(self, node_uuid: str, epoch: int, metrics: Sequence[Metric]) -> None:
        """Replace the metrics of a node, unless another writer has raised its epoch.

        :raises StoreUnavailable:
        """
        node = compute_nodes.c
        statement = update(compute_nodes).where(node.uuid == node_uuid, node.epoch == epoch)
        with self._transactions.write_repeatable() as connection:
            connection.execute(statement.values(metrics=to_document(documents(metrics))))
