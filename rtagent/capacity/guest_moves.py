"""Moves of guests between hosts of a fleet, folded onto their states: nothing is moved.

The rule of a move decides whether a destination takes a guest. At the source, its claim is
released, as after the confirmation of the move.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec.structs import asdict

from rtagent import claims
from rtagent.allocation.requirements import from_request
from rtagent.capacity.fleet import JudgedHost
from rtagent.capacity.rooms import Bound
from rtagent.errors import RequestError
from rtagent.lifecycle.moves.destination import move_claim
from rtagent.model.base import Value
from rtagent.model.change import Call
from rtagent.model.claim import ACTIVE, Claim
from rtagent.model.decision import Granted, Refused
from rtagent.model.host_report import InstanceInfo
from rtagent.model.migration import MigrationType, MoveRequest, SourceFacts
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest, Instance

#: The types of moves of a guest that runs, and of one that is stopped for the move.
LIVE: Final = "live-migration"
COLD: Final = "migration"
#: The time of the moves. It decides nothing.
_TIME = datetime(2000, 1, 1, tzinfo=UTC)
#: A guest in another state, or in one that nobody has reported, does not move.
_RUNS, _STOPPED = ("active",), ("stopped",)

_sorted = msgspec.json.Encoder(order="deterministic")


class Guest(Value, frozen=True, kw_only=True):
    """A guest that may move. :ivar host: the uuid of its node. :ivar claim: what it has there.

    :ivar zones: the availability zones of its host, in which it stays, because nobody has reported
        whether it was asked to be there.
    :ivar only_cold: why it cannot move while it runs; "": it can.
    """

    host: str
    claim: Claim
    zones: frozenset[str] = frozenset()
    only_cold: str = ""

    @property
    def kinds(self) -> tuple[MigrationType, ...]:
        """The types of its moves, the one to be preferred first."""
        return (COLD,) if self.only_cold else (LIVE, COLD)

    def request(self, kind: MigrationType) -> MoveRequest:
        """Return the request of its claim at a destination."""
        claim = self.claim
        assigned = claim.numa_topology.cells if claim.numa_topology else ()
        build = BuildRequest(
            instance=Instance(
                **asdict(claim.instance),
                uuid=claim.owner_id,
                flavor=claim.flavor,
                image=claim.image,
                pci_requests=claim.pci_requests,
            ),
            limits=claim.limits,
            extra_resource=claim.extra_resource,
        )
        return MoveRequest(
            build=build,
            migration=kind,
            old_flavor=claim.flavor,
            source=SourceFacts(page_sizes=tuple(cell.pagesize for cell in assigned)),
        )

    def shape(self, kind: MigrationType) -> bytes:
        """Return a key: guests with equal ones are taken by the same hosts on which they are not.

        Filters read the owner's project, user and operating system.
        """
        request = self.request(kind)
        instance = request.build.instance
        facts = (instance.project_id, instance.user_id, instance.os_type, sorted(self.zones))
        limits, extra = request.build.limits, request.build.extra_resource
        needs = (instance.flavor, instance.image, instance.pci_requests, limits, extra)
        sizes = request.source.page_sizes if kind == LIVE else ()
        return _sorted.encode((kind, facts, instance.is_volume_backed, *needs, sizes))


def guests(host: JudgedHost) -> Iterator[Guest]:
    """Yield the guests of a host that may move: those that run or are stopped, that take part in no
    other operation, that have one claim, and whose domain has what the claim says.
    """
    for info in host.instances.values():
        claim = _only_claim(info)
        if claim is not None:
            why = _only_cold(host.state, claim)
            yield Guest(host=host.uuid, claim=claim, zones=host.zones, only_cold=why)


def _only_claim(info: InstanceInfo) -> Claim | None:
    """Return the claim of a guest that may move; None: it may not."""
    if not info.here or info.domain_usage is not None or len(info.claims) != 1:
        return None
    [claim] = info.claims
    steady = claim.state == ACTIVE and claim.suspect is None and claim.instance.task_state is None
    return claim if steady and claim.instance.vm_state in _RUNS + _STOPPED else None


def _only_cold(state: NodeState, claim: Claim) -> str:
    """Return why a guest cannot move while it runs; "": it can."""
    if claim.instance.vm_state in _STOPPED:
        return "it is stopped"
    if claim.mem_encryption is not None:
        return "its memory is encrypted"
    if claim.resources:
        return f"it has {', '.join(sorted({unit.resource_class for unit in claim.resources}))}"
    fixed = [device.address for device in claim.pci if not _moves_live(state, device.address)]
    return f"it has the device {', '.join(fixed)}" if fixed else ""


def _moves_live(state: NodeState, address: str) -> bool:
    return address in state.devices and state.devices[address].tags.live_migratable


def bound_of(guest: Guest, state: NodeState) -> Bound | None:
    """Return the bound of guests like this one on a host; None: it takes none."""
    if state.topology is None:
        return None
    try:
        return Bound(state, from_request(guest.request(COLD).build, state.policy))
    except RequestError:
        return None


def left(host: JudgedHost, state: NodeState, guest: Guest) -> NodeState | None:
    """Return the state of a host after a guest has left it; None: the report does not allow it.

    :param state: of the host. Other guests may have left it, and come to it.
    """
    call = Call(method="advise", operation_id=guest.claim.owner_id, digest="")
    # A wrong report of one host must not end the search on all hosts.
    try:
        own = host.own_state(state, guest.claim.owner_id)
        decision = claims.release_claim(own, call, _TIME, guest.claim.uuid)
        after = own.fold(decision.change) if isinstance(decision, Granted) else own
    except Exception:
        return None
    return after if guest.claim.uuid in own.claims else None


def arrived(state: NodeState, guest: Guest, kind: MigrationType) -> NodeState | Refused | None:
    """Return the state of a destination with a guest that comes; or why it does not take the guest;
    None: the request cannot be decided there.
    """
    call = Call(method="advise", operation_id=guest.claim.uuid, digest="")
    # Beside errors of the request there are those that a wrong report causes.
    try:
        decision = move_claim(state, call, _TIME, guest.request(kind))
    except Exception:
        return None
    return decision if isinstance(decision, Refused) else state.fold(decision.change)
