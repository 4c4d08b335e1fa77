"""What a scheduler starts from: the records of all nodes of a shared database, as reports, and the
hosts of nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace
from sqlalchemy import Engine, delete, insert, select

from rtagent.db.node_records import POLICY
from rtagent.db.registry import BINARY, SqlServiceRegistry
from rtagent.db.schema import compute_nodes, node_hosts
from rtagent.db.store import SqlStore
from rtagent.db.transaction import Transactions
from rtagent.errors import StoreDamaged
from rtagent.model.base import Value, made_from
from rtagent.model.host_report import HostReport, InstanceInfo, ServiceState
from rtagent.model.node import NodeHost
from rtagent.model.node_state import NodeState, restore
from rtagent.model.policy import Policy
from rtagent.ports import Service
from rtagent.scheduler.report import (
    description_of,
    digest_of,
    instances_digest,
    instances_of,
    report_of,
)

_decode_policy = msgspec.json.Decoder(Policy).decode


class HostRecord(Value, frozen=True, kw_only=True):
    """The record of one node.

    :ivar report: with its description; None: the record does not suffice for one, and the
        scheduler waits for the agent's own report. :ivar why_not: why it does not suffice.
    :ivar instances: the owners of claims and domains on the host.
    :ivar age: seconds since the last heartbeat of the service, by the clock of the database;
        infinite: there was none.
    """

    node_uuid: str
    report: HostReport | None = None
    why_not: str = ""
    instances: tuple[InstanceInfo, ...] = ()
    age: float = float("inf")


class HostRecords:
    """The records of an engine of `open_engine`. All methods raise `StoreUnavailable`."""

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)
        self._registry, self._store = SqlServiceRegistry(engine), SqlStore(engine)

    def nodes(self) -> frozenset[str]:
        """Return the uuids of the nodes that were not removed."""
        live = select(compute_nodes.c.uuid).where(compute_nodes.c.deleted_at.is_(None))
        with self._transactions.query() as connection:
            return frozenset(connection.scalars(live))

    def read(self, now: datetime) -> Iterator[HostRecord]:
        """Return the record of each node, one by one.

        :param now: of this host, see `database_now`.
        """
        services = {each.host: each for each in self._registry.services() if each.binary == BINARY}
        at = self._registry.now(now)
        for uuid in sorted(self.nodes()):
            try:
                yield self._read(uuid, services, at)
            except StoreDamaged as error:
                yield HostRecord(node_uuid=uuid, why_not=error.message)

    def _read(self, uuid: str, services: Mapping[str, Service], at: datetime) -> HostRecord:
        policy = self._policy(uuid)
        if policy is None:
            return HostRecord(node_uuid=uuid, why_not="its agent has not stored its policy yet")
        stored = self._store.load(uuid)
        if stored.unknown:
            return HostRecord(node_uuid=uuid, why_not="; ".join(stored.unknown))
        if stored.topology is None:
            return HostRecord(node_uuid=uuid, why_not="its agent has not observed it yet")
        state = restore(stored, policy)
        service = services.get(state.node.host)
        seen = None if service is None else service.last_seen_up
        return HostRecord(
            node_uuid=uuid,
            report=_report(state, service),
            instances=tuple(instances_of(state).values()),
            age=float("inf") if seen is None else max(0.0, (at - seen).total_seconds()),
        )

    def _policy(self, uuid: str) -> Policy | None:
        """:raises StoreDamaged: the policy cannot be read."""
        query = select(*POLICY.selected).where(compute_nodes.c.uuid == uuid)
        with self._transactions.query() as connection:
            row = connection.execute(query).one_or_none()
        if row is None or row[0] is None:
            return None
        found = POLICY.read(row)
        try:
            if not found.faults:
                return _decode_policy(found.values["policy"])
        except msgspec.MsgspecError:
            pass
        raise StoreDamaged(f"compute_nodes {uuid}: policy cannot be read: its agent replaces it")


class NodeHosts:
    """The hosts of nodes: of those in ``compute_nodes``, and of others the rows of ``node_hosts``.

    An agent with a database of its own has no row in ``compute_nodes`` of the schedulers. So a
    scheduler records which host's key has reported a node first, and a restart does not forget it.
    All methods raise `StoreUnavailable`.
    """

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


def _report(state: NodeState, service: Service | None) -> HostReport:
    description = description_of(state)
    report = report_of(
        state,
        digest_of(description),
        service=ServiceState() if service is None else made_from(ServiceState, service),
        instances_digest=instances_digest({*state.owners, *state.domain_usages}),
    )
    return replace(report, description=description)
