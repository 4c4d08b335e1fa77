"""Restore: the database is taken back to an older copy while the agents run."""

import time
from random import Random
from typing import Any

from oslo_context.context import RequestContext
from retrying import Retrying
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from rtagent.db.engine import open_engine
from rtagent.errors import RtAgentError
from rtagent.rpc.calls import UNANSWERED
from rtagent.rpc.client import AgentAPI
from tests.chaos.nemesis.database import FAMILY
from tests.chaos.nemesis.fault import RESTORED, Fault, NotYet, one_agent
from tests.chaos.world.world import DATABASES, World
from tests.support.stores import SqlDatabase

CONTEXT = RequestContext(user_id="operator", roles=["admin"], overwrite=False)

#: Seconds between the copy and its restoration.
AGES = (1.0, 5.0)
#: Seconds within which an agent notices it. Its heartbeat looks every other second.
NOTICED = 10.0


class Restore(Fault):
    """A copy is made, and some seconds later it is restored: what was acknowledged in between is
    lost. An agent that notices grants nothing, until the operator accepts the copy at the end.

    The record of the end has the restored databases that the agents reported.
    """

    name = "restore-database"
    family = FAMILY

    def __init__(self) -> None:
        super().__init__()
        self.details = {"lenient": RESTORED, "reported": {}}
        self._unseen: set[str] = set()

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.database_kind in DATABASES

    def begin(self, world: World, random: Random) -> None:
        host = one_agent(world, random)
        self.target = world.database_kind if world.database else host
        engine = open_engine(world.agent_database_url(host), 30)
        try:
            copies = SqlDatabase(engine)
            copy = copies.take()
            self.details["copied"] = time.monotonic()
            time.sleep(random.uniform(*AGES))
            self._put(world, copies, copy)
            self.details["restored"] = time.monotonic()
        finally:
            engine.dispose()
        self._unseen = set(world.agents) if world.database else {host}
        world.restored |= self._unseen

    def _put(self, world: World, copies: SqlDatabase, copy: Any) -> None:
        """Replace everything, while no client reaches the server, as during a real restoration."""
        links = [link for (_, server), link in list(world.links.items()) if server == "database"]
        for link in links:
            link.cut()
        try:
            # The server may still execute what it got before.
            Retrying(stop_max_attempt_number=10, wait_fixed=500).call(copies.put, copy)
        finally:
            for link in links:
                link.heal()

    def end(self, world: World) -> None:
        """Accept what was restored. :raises NotYet: an agent does not answer."""
        if not self._unseen:
            return
        transport = world.open_transport("operator")
        try:
            for host in sorted(self._unseen):
                self._accept(world, AgentAPI(transport, host, timeout=20, attempts=1), host)
                self._unseen.discard(host)
        except (*UNANSWERED, RtAgentError, SQLAlchemyError) as exc:
            raise NotYet(f"{self.target}: {exc!r}") from exc
        finally:
            transport.cleanup()

    def _accept(self, world: World, api: AgentAPI, host: str) -> None:
        """:raises NotYet: the agent has not noticed yet that it lost something."""
        deadline = time.monotonic() + NOTICED
        while True:
            # In this order: an agent that notices has a record of it before it writes a revision.
            node = api.get_node(CONTEXT)
            stored = _stored_revision(world, host, node["node"]["uuid"])
            restore = api.get_restore(CONTEXT)["restore"]
            if restore is not None and restore["accepted_at"] is None:
                self.details["reported"][host] = restore
                api.accept_restore(CONTEXT, revision=restore["revision"])
                return
            if node["revision"] <= stored:
                return  # the copy lacked nothing of this host
            if time.monotonic() > deadline:
                raise NotYet(f"{host} has revision {node['revision']}, which its database lacks")
            time.sleep(0.5)


def _stored_revision(world: World, host: str, node_uuid: str) -> int:
    engine = open_engine(world.agent_database_url(host), 30)
    try:
        with engine.connect() as connection:
            query = text("SELECT revision FROM compute_nodes WHERE uuid = :node")
            return int(connection.execute(query, {"node": node_uuid}).scalar_one())
    finally:
        engine.dispose()
