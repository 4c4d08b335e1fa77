"""Advice on the hosts of the scheduler's view: the filters judge as they do for a selection.

Nothing is locked, assumed or written, and Placement is not asked.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from rtagent.capacity.advice import Advice, advise
from rtagent.capacity.fleet import JudgedHost
from rtagent.capacity.guest_moves import Guest
from rtagent.capacity.move_search import Destinations
from rtagent.errors import RequestError, RtAgentError
from rtagent.model.migration import MigrationType
from rtagent.model.node_state import NodeState
from rtagent.model.request import Limits
from rtagent.model.server import ImageRequest, RequestSpec
from rtagent.scheduler.aggregate_rules import ZONE
from rtagent.scheduler.claim_template import claim_template
from rtagent.scheduler.filter import Request
from rtagent.scheduler.fleet import Ask, AskedOfPlacement, Counting, asked_of_placement, fleet_hosts
from rtagent.scheduler.host_state import HostState, replica_fields
from rtagent.scheduler.scheduling_call import Parts


def advised(asked: Ask, count: int, parts: Parts, is_over: Callable[[], bool]) -> Advice:
    """Return what makes room for so many instances of a request.

    :param is_over: returns whether the search has to end. Between any two hosts it lets others have
        the processor.
    :raises InvalidRequest: the request itself is wrong.
    """
    placement = _of_placement(asked, parts)
    if placement.undecided:
        return Advice(room=0, undecided=placement.undecided)
    manager, filters = parts.manager, parts.filters
    hosts = manager.get_all_host_states()
    counting = Counting(asked, parts)
    request, by_uuid = counting.request, {host.uuid: host for host in hosts}

    def passing(fleet_host: JudgedHost, state: NodeState, fits: int) -> int:
        is_over()
        host = by_uuid[fleet_host.uuid]
        if counting.changing and state is not fleet_host.state:
            host = replace(host, **replica_fields(state, host))
        return counting.passing(host, state, fits)[0]

    judged = fleet_hosts(hosts, request, filters, manager.replica_for, placement.member_of)
    return advise(
        tuple(_paced(judged, is_over)),
        asked.template.build,
        count,
        passing,
        _destinations(hosts, request, parts, is_over),
        is_over,
    )


def _paced(hosts: Iterable[JudgedHost], is_over: Callable[[], bool]) -> Iterator[JudgedHost]:
    for host in hosts:
        is_over()
        yield host


def _destinations(
    hosts: Sequence[HostState], request: Request, parts: Parts, is_over: Callable[[], bool]
) -> Destinations:
    """Return the hosts in the same zones that the filters let through, once for equal guests."""
    known: dict[bytes, tuple[str, ...]] = {}

    def destinations(guest: Guest, kind: MigrationType) -> Sequence[str]:
        shape = guest.shape(kind)
        if shape not in known:
            zone = [host for host in hosts if host.metadata(ZONE) == guest.zones]
            known[shape] = tuple(_passing(zone, _spec(guest, kind), request, parts, is_over))
        return known[shape]

    return destinations


def _passing(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    request: Request,
    parts: Parts,
    is_over: Callable[[], bool],
) -> Iterator[str]:
    """Yield the uuids of the hosts that the filters let through for a move; none if Placement alone
    judges a part of its request.
    """
    with contextlib.suppress(RequestError):  # of a guest that was built from another request
        asked = Ask(spec=spec, template=claim_template(spec))
        placement = _of_placement(asked, parts)
        if placement.undecided:
            return
        moved, replica_for = replace(request, spec=spec), parts.manager.replica_for
        judged = fleet_hosts(hosts, moved, parts.filters, replica_for, placement.member_of)
        for host in _paced(judged, is_over):
            if not host.refused:
                yield host.uuid


def _of_placement(asked: Ask, parts: Parts) -> AskedOfPlacement:
    """Return what a request asks of Placement; if no host can be selected, why."""
    try:
        return asked_of_placement(asked, parts)
    except RtAgentError as error:
        return AskedOfPlacement(undecided=error.message)


def _spec(guest: Guest, kind: MigrationType) -> RequestSpec:
    """Return the request of a guest's move, as far as its claim tells it."""
    request = guest.request(kind).build
    instance = request.instance
    return RequestSpec(
        flavor=instance.flavor,
        image=ImageRequest(properties=instance.image.properties),
        purpose=kind,
        project_id=instance.project_id,
        user_id=instance.user_id,
        os_type=instance.os_type,
        is_bfv=instance.is_volume_backed,
        pci_requests=instance.pci_requests,
        limits=request.limits or Limits(),
        extra_resource=request.extra_resource or {},
    )
