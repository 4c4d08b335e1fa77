"""The database without the daemon: what ``--offline`` reads and ``node remove`` writes."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from rtagent.api.client import Reader
from rtagent.api.events import events, tail_of
from rtagent.api.routes import NO_AUDIT, Sources
from rtagent.capacity.count import Counts
from rtagent.conf.settings import Settings
from rtagent.db import migrate
from rtagent.db.engine import open_existing
from rtagent.db.event_rows import SqlEventLog
from rtagent.db.node_records import Rule, SqlNodes
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.store import SqlStore
from rtagent.errors import ClaimNotFound, NodeNotFound, PciDeviceNotFound, RtAgentError
from rtagent.model.claim import ClaimEnd, ClaimEvent
from rtagent.model.event import RecordedEvents
from rtagent.model.node import NodeRecord
from rtagent.model.node_state import NodeState, restore
from rtagent.model.request import Flavor
from rtagent.model.stored import Stored
from rtagent.placement.adoption import Adoption, AdoptionFile
from rtagent.placement.offers import with_offers
from rtagent.ports import Service
from rtagent.scheduler.errors import HostNotFound

#: Commits whose events are read at once.
_ROWS = 1000


class OfflineDatabase:
    """The database of the daemon, found in the same configuration."""

    def __init__(self, settings: Settings) -> None:
        """Open it. A schema newer than this program is read, too.

        :raises StoreUnavailable: its file does not exist; a read must not create it.
        :raises SchemaMismatch: it has no schema yet.
        """
        self._settings = settings
        options = settings.database
        self._engine = engine = open_existing(options.connection, options.operation_timeout)
        if migrate.version(engine) is None:
            migrate.check(engine)
        self._nodes, self._store = SqlNodes(engine), SqlStore(engine)
        self._registry = SqlServiceRegistry(engine)

    @property
    def flavors(self) -> Sequence[Flavor]:
        """The flavors of ``[capacity] flavors_file``."""
        return self._settings.flavors

    def states(self) -> Sequence[NodeState]:
        """Return the state of each node, as its agent would restore it.

        The policy of another host's node is not in this configuration; it is assumed to be the same
        as here.
        """
        present = (record for record in self._nodes.records() if record.deleted_at is None)
        return [self._state(self._store.load(record.node.uuid)) for record in present]

    def history(self, claim_uuid: str) -> Sequence[ClaimEvent]:
        """Return the events of a claim, oldest first, on removed nodes, too."""
        return [
            event
            for record in self._nodes.records()
            for event in self._store.history(record.node.uuid, claim_uuid)
        ]

    def event_text(self, filters: Mapping[str, str]) -> str:
        """Return what ``/events`` would have, of the only node that the database has.

        :raises RtAgentError: it has several nodes, or none. :raises InvalidRequest:
        """
        nodes = [each.node for each in self._nodes.records() if each.deleted_at is None]
        if len(nodes) != 1:
            names = ", ".join(node.host for node in nodes) or "none"
            raise RtAgentError(
                f"the database has events of these hosts: {names}; ask the agent of one of them"
            )
        rows, last = list[RecordedEvents](), 0
        log = SqlEventLog(self._engine)
        while found := log.read(nodes[0].uuid, last, _ROWS):
            rows, last = [*rows, *found], found[-1].last
        return events(tail_of(rows), filters).body.decode()

    def ended(self, node_uuid: str, owners: Collection[str]) -> Mapping[str, ClaimEnd]:
        """Return how the last claim of each of these owners on a node ended, by owner."""
        return self._store.ended(node_uuid, owners)

    def services(self) -> Sequence[Service]:
        """Return all services, by host."""
        return self._registry.services()

    def force_down(self, host: str, forced_down: bool) -> Service:
        """Force the service of a host down, or no longer.

        :raises HostNotFound: it has no record. :raises SchemaMismatch: StoreUnavailable:
        """
        migrate.check(self._engine)
        if host not in {each.host for each in self.services()}:
            raise HostNotFound(host=host)
        return self._registry.set_forced_down(host, forced_down)

    def now(self) -> datetime:
        """Return the time by which heartbeats are recorded: that of the database's server."""
        return self._registry.now(datetime.now(UTC))

    def remove_node(
        self, name: str, rule: Rule, now: datetime, *, dry_run: bool = False
    ) -> NodeRecord:
        """Mark the record of a node as removed.

        :param name: its uuid or hypervisor_hostname. :param rule: decides whether it may go.
        :param dry_run: only evaluate the rule.
        :raises NodeNotFound: there is no such node. :raises SchemaMismatch: the schema is not that
            of this program. :raises RtAgentError: the rule's refusal.
        """
        migrate.check(self._engine)
        present = [record.node for record in self._nodes.records() if record.deleted_at is None]
        found = [node for node in present if name in (node.uuid, node.hypervisor_hostname)]
        if len(found) != 1:
            known = ", ".join(f"{node.hypervisor_hostname} ({node.uuid})" for node in present)
            raise NodeNotFound(node=name, served=known or "none")
        return self._nodes.remove(found[0].uuid, rule, now, dry_run=dry_run)

    def adopted(self, state: NodeState, adoption: Adoption) -> NodeState:
        """Return a state with an adoption in force, and so with other providers for the provider
        files to add to.
        """
        policy = adoption.applied_to(state.policy)
        return with_offers(replace(state, policy=policy), self._settings.provider_files)

    def _state(self, stored: Stored) -> NodeState:
        adoption = AdoptionFile(self._settings.default.state_path).read(stored.node.uuid)
        return self.adopted(restore(stored, self._settings.policy(stored.ratios)), adoption)


class OfflineReader:
    """The read API's documents of nodes that are loaded from a database."""

    def __init__(self, states: Sequence[NodeState], flavors: Sequence[Flavor] = ()) -> None:
        """:param flavors: those of the operator's file."""
        self._nodes = [_NodeReader(state, flavors) for state in states]

    def get(self, *segments: str, **filters: str | None) -> dict[str, Any]:
        """Return the document at a path: a collection over all nodes, or one item of any node.

        :raises RtAgentError: the error that an agent would return, or there is no node.
        """
        if not self._nodes:
            raise RtAgentError("the database has no node: has rtagentd ever run here?")
        if len(segments) > 1:
            return self._item(*segments)
        documents = [node.get(*segments, **filters) for node in self._nodes]
        noun = segments[0]
        return {**documents[0], noun: [item for found in documents for item in found[noun]]}

    def _item(self, *segments: str) -> dict[str, Any]:
        for node in self._nodes[:-1]:
            with suppress(ClaimNotFound, NodeNotFound, PciDeviceNotFound):
                return node.get(*segments)
        return self._nodes[-1].get(*segments)


class _NodeReader(Reader):
    """The documents of one state."""

    def __init__(self, state: NodeState, flavors: Sequence[Flavor]) -> None:
        self._sources = Sources(
            snapshot=lambda: state,
            stale=lambda: False,
            checks=tuple,
            creation_error=lambda: None,
            registry=CollectorRegistry(),
            allocations=lambda: NO_AUDIT,
            counts=Counts(lambda: flavors),
        )

    def request(self, target: str) -> tuple[int, bytes]:
        reply = self._sources.answer(target)
        return reply.status, reply.body
