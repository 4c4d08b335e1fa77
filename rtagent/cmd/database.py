"""Database: what offline commands read, and the little that they write."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rtagent.conf.policy import policy
from rtagent.conf.settings import Settings
from rtagent.db import migrate
from rtagent.db.engine import open_existing
from rtagent.db.event import ClaimEvent
from rtagent.db.nodes import Rule, SqlNodes
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.store import SqlStore
from rtagent.errors import NodeNotFound
from rtagent.kernel import restored
from rtagent.model.host import HostState
from rtagent.model.node import NodeRecord
from rtagent.ports import Service, Stored


class Database:
    """The daemon's own, by the same configuration."""

    def __init__(self, settings: Settings) -> None:
        """A schema that is newer than this program is read all the same.

        :raises RtAgentError: it is a file that does not exist: reading must not make one.
        :raises SchemaMismatch: there is nothing to be read yet.
        """
        self._settings = settings
        options = settings.database
        self._engine = engine = open_existing(options.connection, options.operation_timeout)
        if migrate.version(engine) is None:
            migrate.check(engine)
        self._nodes, self._store = SqlNodes(engine), SqlStore(engine)
        self._registry = SqlServiceRegistry(engine)

    def states(self) -> Sequence[HostState]:
        """Each node, as its agent would restore it; a policy that this configuration does not
        tell, another host's, is taken to be the same."""
        present = (record for record in self._nodes.records() if record.deleted_at is None)
        return [self._state(self._store.load(record.node.uuid)) for record in present]

    def history(self, claim_uuid: str) -> Sequence[ClaimEvent]:
        """What happened to a claim, oldest first; also on nodes that have been removed."""
        return [
            event
            for record in self._nodes.records()
            for event in self._store.history(record.node.uuid, claim_uuid)
        ]

    def services(self) -> Sequence[Service]:
        """All of them, by host."""
        return self._registry.services()

    def remove_node(self, name: str, rule: Rule, now: datetime) -> NodeRecord:
        """Mark a node's record as removed.

        :param name: its uuid or hypervisor_hostname.
        :raises NodeNotFound: or what the rule raises. :raises SchemaMismatch: it is not ours.
        """
        migrate.check(self._engine)
        present = [record.node for record in self._nodes.records() if record.deleted_at is None]
        found = [node for node in present if name in (node.uuid, node.hypervisor_hostname)]
        if len(found) != 1:
            known = ", ".join(f"{node.hypervisor_hostname} ({node.uuid})" for node in present)
            raise NodeNotFound(node=name, served=known or "none")
        return self._nodes.remove(found[0].uuid, rule, now)

    def _state(self, stored: Stored) -> HostState:
        return restored(stored, policy(self._settings, stored.ratios))
