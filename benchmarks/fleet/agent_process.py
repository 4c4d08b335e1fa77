"""AgentProcess: a process with the agents of many hosts."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from benchmarks.fleet.agent import FleetAgent
from benchmarks.fleet.guests import Guests
from benchmarks.fleet.host import LARGE_KIB, FleetHost
from rtagent.model.guest import GuestState
from rtagent.numa.host_cells import HostCells, host_cells
from rtagent.service import assembly
from rtagent.service.assembly import NodeDatabase

#: Agents that share one pool of connections to the database, which is as large as that of an agent.
PER_DATABASE = 5
#: Agents of a process that stop at the same moment.
AT_ONCE = 16
#: Seconds between two looks at an agent that starts.
LOOK = 0.5
#: Seconds between the changes of two hosts of a process. An outage does not change all hosts at the
#: same moment, and servers and agents share the CPUs here.
PAUSE = 2.0
#: The uuid of a domain without a claim.
FOREIGN = "3f8e1c52-6d0b-4b7f-9a41-0c5d2e7f8a96"


class HostView(Struct, frozen=True, kw_only=True):
    """What an agent has of its host.

    :ivar claims: the state of each claim, by its uuid. :ivar owners: of the claims, by their uuid.
    :ivar domains: of the hypervisor: whether each runs.
    :ivar free_pcpus: dedicated CPUs without an owner, by cell.
    :ivar free_pages: large pages without an owner, by cell.
    """

    host: str
    node_uuid: str
    claims: Mapping[str, str]
    owners: Mapping[str, str]
    domains: Mapping[str, bool]
    free_pcpus: Mapping[int, int]
    free_pages: Mapping[int, int]


class AgentProcess:
    """The agents of one process. Thread-safe. Other processes call it by a `Proxy`."""

    def __init__(self) -> None:
        self._agents: dict[str, FleetAgent] = {}
        self._databases: dict[str, NodeDatabase] = {}  # by host
        self._errors: list[str] = []
        self._guests = Guests(self._agents)

    def prepare(self, hosts: Sequence[FleetHost]) -> None:
        """Read the configurations of agents. Called once."""
        self._agents.update((host.name, FleetAgent(host)) for host in hosts)
        for number in range(0, len(hosts), PER_DATABASE):
            sharing = [host.name for host in hosts[number : number + PER_DATABASE]]
            database = assembly.database(self._agents[sharing[0]].settings)
            self._databases.update(dict.fromkeys(sharing, database))

    def start(self, host: str) -> None:
        """Start an agent, and wait until it has caught up or has failed. `ready` raises that."""
        agent = self._agents[host]
        try:
            agent.start(self._databases[host])
        except Exception as error:  # whatever it is, `ready` raises it in the process of the run
            self._errors.append(f"{host}: {error!r}")
            return
        while not agent.error and (not agent.ready or agent.behind):
            time.sleep(LOOK)
            agent.look()

    def ready(self) -> int:
        """Return how many agents grant claims. :raises RuntimeError: one has failed."""
        for agent in self._agents.values():
            agent.look()
            if agent.error:
                self._errors.append(f"{agent.host.name}: {agent.error}")
        if self._errors:
            raise RuntimeError("; ".join(self._errors))
        return sum(agent.ready for agent in self._agents.values())

    def behind(self) -> AbstractSet[tuple[str, str]]:
        """Return the parts of agents that do not work, or have not caught up, with their hosts."""
        return {(part, host) for host, agent in self._agents.items() for part in agent.behind}

    def revisions(self) -> Mapping[str, int]:
        """Return the revision of each host."""
        return {agent.host.name: agent.state.revision for agent in self._agents.values()}

    def views(self) -> Sequence[HostView]:
        """Return what the agents have of their hosts."""
        return [_view(agent) for agent in self._agents.values()]

    def threads(self) -> int:
        """Return the number of threads."""
        return threading.active_count()

    def guest(self, action: str, host: str, server_uuid: str, claim_uuid: str) -> GuestState:
        """Do something with a guest, see `Guests`. Return its state then."""
        return self._guests.act(action, host, server_uuid, claim_uuid)

    def change(self) -> None:
        """Start a domain without a claim on each host, or end it: on one host after the other."""
        for agent in self._agents.values():
            if FOREIGN in agent.hypervisor.domains:
                agent.hypervisor.destroy(FOREIGN)
            else:
                agent.hypervisor.start_domain(FOREIGN, vcpus=1, memory_mb=512)
            time.sleep(PAUSE)

    def stop(self) -> None:
        """Stop all agents."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(FleetAgent.stop, self._agents.values()))


def _view(agent: FleetAgent) -> HostView:
    state = agent.state
    assert state.topology is not None
    name = state.node.host
    cells = host_cells(
        HostCells(
            name=name, topology=state.topology, usage=state.usage.numa, policy=state.policy.numa
        )
    )
    return HostView(
        host=name,
        node_uuid=state.node.uuid,
        claims={uuid: claim.state for uuid, claim in state.claims.items()},
        owners={uuid: claim.owner_id for uuid, claim in state.claims.items()},
        domains={
            uuid: each.active
            for uuid, each in dict(agent.hypervisor.domains).items()
            if uuid != FOREIGN
        },
        free_pcpus={cell.id: cell.free_pcpus for cell in cells},
        free_pages={cell.id: cell.pages[LARGE_KIB][1] for cell in cells},
    )
