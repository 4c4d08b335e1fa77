"""Guests of the simulated hosts of one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from benchmarks.fleet.agent import FleetAgent
from rtagent.errors import HypervisorUnavailable
from rtagent.lifecycle.moves.steps import claimed_usage
from rtagent.model.guest import GuestState
from rtagent.model.observation import Domain


class Guests:
    """The domains that conductors order. Each has exactly what its claim assigns.

    The actions are those of an enactor: ``define``, ``start``, ``stop``, ``undefine``, and
    ``state``, which changes nothing. All are idempotent.
    """

    def __init__(self, agents: Mapping[str, FleetAgent]) -> None:
        """:param agents: by host."""
        self._agents = agents
        self._actions: Mapping[str, Callable[[FleetAgent, str, str], None]] = {
            "define": _define,
            "start": lambda agent, uuid, _: _set_active(agent, uuid, True),
            "stop": lambda agent, uuid, _: _set_active(agent, uuid, False),
            "undefine": _undefine,
            "state": lambda agent, uuid, claim: None,
        }

    def act(self, action: str, host: str, server_uuid: str, claim_uuid: str) -> GuestState:
        """Do one of the actions, and return the state of the domain then."""
        agent = self._agents[host]
        self._actions[action](agent, server_uuid, claim_uuid)
        domain = agent.hypervisor.domains.get(server_uuid)
        if domain is None:
            return "absent"
        return "running" if domain.active else "stopped"


def _define(agent: FleetAgent, server_uuid: str, claim_uuid: str) -> None:
    """Define the domain of a claim. One that runs keeps running."""
    claim = agent.state.claims.get(claim_uuid)
    if claim is None:
        raise HypervisorUnavailable(f"{agent.host.name} does not know claim {claim_uuid} yet")
    usage, before = claimed_usage(claim), agent.hypervisor.domains.get(server_uuid)
    domain = Domain(
        uuid=server_uuid,
        name=usage.name,
        active=before is not None and before.active,
        vcpus=usage.vcpus,
        memory_mb=usage.memory_mb,
        occupancy=usage.occupancy,
    )
    _put(agent, domain)


def _set_active(agent: FleetAgent, server_uuid: str, active: bool) -> None:
    domain = agent.hypervisor.domains.get(server_uuid)
    if domain is not None and domain.active != active:
        _put(agent, replace(domain, active=active))


def _undefine(agent: FleetAgent, server_uuid: str, _claim_uuid: str) -> None:
    if agent.hypervisor.domains.pop(server_uuid, None) is not None:
        agent.hypervisor.announce("lifecycle")


def _put(agent: FleetAgent, domain: Domain) -> None:
    agent.hypervisor.domains[domain.uuid] = domain
    agent.hypervisor.announce("lifecycle")
