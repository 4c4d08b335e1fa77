"""Cloud: three hosts with agents, and everything that a conductor needs besides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from msgspec.structs import replace
from oslo_context.context import RequestContext

from rtagent.conductor.conductor import Conductor
from rtagent.conductor.run import ConductorOptions, Outside
from rtagent.errors import AgentUnreachable, RtAgentError
from rtagent.model.guest import GuestState
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec, Server
from rtagent.ports import NullReporter
from rtagent.rpc.serving import Endpoint
from tests.support.agents import POLICY, agents, copies
from tests.support.cloud_parts import (
    HOSTS,
    Enactor,
    Faults,
    Hooks,
    Placement,
    Scheduler,
    Store,
    resources,
)
from tests.support.hosts import copied
from tests.support.rpc import agent_endpoint, invoke
from tests.support.stores import MemoryServerStore

SMALL = Flavor(vcpus=1, memory_mb=1024, root_gb=1)
LARGE = Flavor(vcpus=2, memory_mb=2048, root_gb=2)


class Cloud:
    """Three hosts, a scheduler, an enactor, and the records of conductors.

    :ivar down: hosts whose agent does not answer. :ivar renewed: set when a lease is renewed.
    """

    def __init__(
        self, *, shared: bool = True, reuse: bool = False, placement: bool = False
    ) -> None:
        policy = replace(POLICY, same_host_resize_reuse=reuse)
        self.hosts = agents(3, shared=shared, first=0, policy=policy)
        self.clock, self.faults, self.down = self.hosts[0].clock, Faults(), set[str]()
        self.renewed = threading.Event()
        self.scheduler, self.enactor, self.hooks = Scheduler(self), Enactor(self), Hooks(self)
        self.records = MemoryServerStore()
        self.placement = Placement(self) if placement else None
        self.options = ConductorOptions(host_timeout=30, takeover_time=15)
        self._endpoints: dict[str, Endpoint] = {}
        self.calls: list[tuple[str, str, Mapping[str, Any]]] = []

    def copy(self) -> Cloud:
        """Return a cloud that is in the same state, without faults."""
        twin = copied(self)
        twin.hosts, twin.faults, twin.renewed = copies(self.hosts), Faults(), threading.Event()
        twin.clock, twin._endpoints = twin.hosts[0].clock, {}
        twin.records, twin.scheduler = copied(self.records), copied(self.scheduler)
        twin.enactor, twin.hooks = copied(self.enactor), copied(self.hooks)
        twin.scheduler.cloud = twin.enactor.cloud = twin.hooks.cloud = twin
        if self.placement is not None:
            twin.placement = copied(self.placement)
            twin.placement.cloud, twin.placement.api = twin, deepcopy(self.placement.api)
        return twin

    def conductor(self, pause: Callable[[float], None] | None = None, **more: Any) -> Conductor:
        """Start a conductor. While it waits, the clock goes on."""
        return Conductor(
            Store(self.records, lambda: self.faults),
            Outside(
                scheduler=self.scheduler,
                agents=self,
                enactor=self.enactor,
                hooks=self.hooks,
                allocations=self.placement,
            ),
            self.options,
            self.clock,
            pause or self.clock.advance,
            **more,
        )

    def resume(self) -> list[RtAgentError]:
        """Let a new conductor finish everything. Return how the operations failed."""
        conductor, failures = self.conductor(), []
        for operation in conductor.resume():
            try:
                conductor.work(operation)
            except RtAgentError as error:
                failures.append(error)
        return failures

    # -- agents -----------------------------------------------------------------------------------

    def call(self, host: str, node_uuid: str | None, method: str, **arguments: Any) -> Any:
        """Call an agent, as `rtagent.conductor.ports.Agents`."""

        def answer() -> Any:
            if host in self.down:
                raise AgentUnreachable(where=host, why="it is down", remedy="start it")
            self.calls.append((host, method, arguments))
            reply = self._invoke(host, method, {"node_uuid": node_uuid, **arguments})
            if method.endswith("_claim"):  # the host reports it to the scheduler
                self.scheduler.assumed.discard(arguments["operation_id"])
            return reply

        if method == "renew_claim":  # from a thread of its own
            renewed = self._invoke(host, method, {"node_uuid": node_uuid, **arguments})
            self.renewed.set()
            return renewed
        return self.faults.around(f"{method} at {host}", answer)

    def _invoke(self, host: str, method: str, document: Mapping[str, Any]) -> Any:
        if host not in self._endpoints:
            agent = self.hosts[HOSTS.index(host)]
            self._endpoints[host] = agent_endpoint(
                tracker=agent.tracker,
                auditor=agent.auditor,
                clock=self.clock,
                reporter=NullReporter(),
                delete_allocation=_unused,
            )
        conductor = RequestContext(roles=["conductor"], overwrite=False)
        return invoke(self._endpoints[host], conductor, method, document)

    def wait_for_renewal(self) -> None:
        """Wait until a lease is renewed from now on."""
        self.renewed.clear()
        assert self.renewed.wait(60)

    def claims(self, host: str) -> Mapping[str, Any]:
        """Return the live claims of a host, by uuid."""
        return self.hosts[HOSTS.index(host)].state.claims

    def audit(self, *, after: float = 1000.0) -> None:
        """Let all leases lapse, and audit all hosts."""
        up = [agent for agent in self.hosts if agent.node.host not in self.down]
        for agent in up:
            agent.audit()
        self.clock.advance(after)
        for agent in up:
            agent.audit()

    def switch_off(self, host: str) -> None:
        """Switch a host off."""
        hypervisor = self.hosts[HOSTS.index(host)].world
        for uuid in hypervisor.domains:
            hypervisor.shut_off(uuid)
        hypervisor.lost = True
        self.down.add(host)

    def switch_on(self, host: str) -> None:
        """Switch a host on."""
        self.hosts[HOSTS.index(host)].world.lost = False
        self.down.discard(host)

    # -- checks -----------------------------------------------------------------------------------

    def place(self, server_uuid: str) -> list[tuple[str, str]]:
        """Return where a server has claims: host and state of each."""
        return [
            (host, claim.state)
            for host in HOSTS
            for claim in self.claims(host).values()
            if claim.owner_id == server_uuid
        ]

    def guests(self, server_uuid: str) -> list[tuple[str, GuestState]]:
        """Return where a server has a domain, and whether it runs."""
        states = [(host, self.enactor.state(host, server_uuid)) for host in HOSTS]
        return [(host, state) for host, state in states if state != "absent"]

    def check(self) -> None:
        """Check that every server is as its record says, and that nothing else is on the hosts."""
        assert not self.records.operations(running=True)
        for agent in self.hosts:
            agent.state.check()
        servers = {server.uuid: server for server in self.records.servers()}
        found = {claim.owner_id for host in HOSTS for claim in self.claims(host).values()}
        found |= {uuid for agent in self.hosts for uuid in agent.world.domains}
        assert found <= servers.keys()
        moves = {each.move.migration.uuid for each in servers.values() if each.move}
        if self.placement is not None:
            assert self.placement.consumers() <= servers.keys() | moves
        for server in servers.values():
            self._check_server(server)

    def _check_server(self, server: Server) -> None:
        place, move = server.place, server.move
        assert server.task_state is None
        assert server.operation_uuid is None
        claims, guests = set(), []
        if place is not None:
            claims.add((place.host, place.claim["uuid"], "active"))
            guests.append((place.host, "running" if server.runs else "stopped"))
            assert self.enactor.claims[place.host, server.uuid] == place.claim["uuid"]
        if move is not None:
            claims.add((move.source.host, move.source.claim["uuid"], "outgoing"))
            if move.source.host != place.host:
                guests.append((move.source.host, "stopped"))
        assert claims == {
            (host, uuid, claim.state)
            for host in HOSTS
            for uuid, claim in self.claims(host).items()
            if claim.owner_id == server.uuid
        }
        assert sorted(guests) == self.guests(server.uuid)
        if self.placement is not None:
            has = self.placement.has
            used = {place.node_uuid: resources(server.spec.flavor)} if place else {}
            assert has(server.uuid) == used
            if move is not None:
                assert has(move.migration.uuid) == {
                    move.source.node_uuid: resources(move.spec.flavor)
                }


def _unused(instance_uuid: str, reason: object) -> None:
    raise AssertionError("no agent is asked to delete allocations here")


def spec(flavor: Flavor = SMALL, **fields: Any) -> RequestSpec:
    return RequestSpec(flavor=flavor, **fields)
