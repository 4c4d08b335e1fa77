"""The fleet as capacity is counted on it: the hosts of the scheduler's view, judged by its filters.

Nothing is locked, assumed or written, and Placement is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from rtagent.capacity.fleet import FleetHost
from rtagent.capacity.room import judged
from rtagent.model.node_state import NodeState
from rtagent.scheduler.filter import Rejection, Request
from rtagent.scheduler.filtered import refusal_of
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.fits import ReplicaFor
from rtagent.scheduler.host_state import HostState

#: What refuses instead of a filter: the agent itself grants no claims.
AGENT = "agent"


def fleet_hosts(
    hosts: Sequence[HostState], request: Request, filters: HostFilters, replica_for: ReplicaFor
) -> Iterator[FleetHost]:
    """Yield the hosts, in this order.

    All that refuses a host is judged but the fit of the claim, which `room` decides.

    :param request: of any instance, which is on no host.
    :param replica_for: see `HostManager.replica_for`.
    :raises InvalidRequest: the request itself is wrong.
    """
    filtered = filters.get_filtered_hosts(hosts, replace(request, fit=None), every_verdict=True)
    refusals = {refusal.uuid: refusal for refusal in reversed(filtered.refusals)}
    for host in hosts:
        refusal = refusals.get(host.uuid)
        if refusal is None and (closed := _closed(host)) is not None:
            refusal = refusal_of(host, closed, AGENT)
        yield FleetHost(
            host=host.host,
            nodename=host.nodename,
            uuid=host.uuid,
            state=judged(host.replica),
            refused="" if refusal is None else f"{refusal.filter}: {refusal.rejection.message}",
            instances=host.instances,
            own_state=_own_state(host, replica_for),
        )


def _closed(host: HostState) -> Rejection | None:
    """Return why the agent grants no claims, also if no filter refuses the host for it."""
    if host.service.draining is not None:
        return Rejection("it is being drained")
    return None if host.up else Rejection(f"it grants no claims: {host.why_not}")


def _own_state(host: HostState, replica_for: ReplicaFor) -> Callable[[str], NodeState]:
    return lambda owner_id: judged(replica_for(host, owner_id))
