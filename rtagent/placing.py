"""Whether all that a claim asks for fits, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from rtagent import amounts
from rtagent.demand import Demand
from rtagent.errors import NodeNotReady
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.decision import Reason, Refused, refuse
from rtagent.model.host import HostState
from rtagent.model.owners import owner_usage
from rtagent.numa.fit import Fitted, fit
from rtagent.numa.host import Host
from rtagent.numa.limits import cell_limits
from rtagent.pci.fit import DeviceFit
from rtagent.pci.fit import Fitted as FittedDevices
from rtagent.pci.holds import holders, holdings, offered
from rtagent.pci.request import DeviceRequest
from rtagent.pci.specific import FittedUnits, fit_units
from rtagent.pci.states import Holdings


class Shared(Value, frozen=True, kw_only=True):
    """What the owner holds on this host already and may share with himself, in a move.

    :ivar devices: by address: the purpose of each. :ivar members: identifiers.
    """

    devices: Mapping[str, str] = {}
    members: frozenset[str] = frozenset()


NOTHING_SHARED = Shared()


def place(
    state: HostState,
    bare: Claim,
    asked: Demand,
    requests: Sequence[DeviceRequest],
    shared: Shared = NOTHING_SHARED,
) -> Claim | Refused:
    """The claim with the place and the things that it gets, or every reason against it.

    :param bare: the claim as it is to be, but for those.
    :raises NodeNotReady: what the host is made of is not known yet.
    """
    host = _host(state, bare.owner_id)
    devices = device_fit(state, bare.owner_id, requests, shared)
    placed = fit(asked.place, host, cell_limits(bare.limits.numa_topology, state.policy), devices)
    given = _given(placed, devices)
    members = fit_units(
        offered(state) if asked.specific else (),
        holders(state) if asked.specific else {},
        bare.owner_id,
        asked.specific,
        where=host.name,
        offered=_with_use(state, bare.owner_id, shared).members,
    )
    lacking = (*amounts.shortfalls(state, bare), *_reasons(placed, given, members))
    if lacking or not isinstance(placed, Fitted):
        return refuse(dict.fromkeys(lacking))
    return replace(
        bare,
        numa_topology=placed.assignment,
        pci=given.devices if isinstance(given, FittedDevices) else (),
        resources=members.units if isinstance(members, FittedUnits) else (),
    )


def shared_with(claims: Sequence[Claim]) -> Shared:
    """What these claims of one owner hold, for another claim of his."""
    return Shared(
        devices={device.address: device.purpose for claim in claims for device in claim.pci},
        members=frozenset(unit.identifier for claim in claims for unit in claim.resources),
    )


def _host(state: HostState, owner_id: str) -> Host:
    """What there is to fit onto: an orphan that is adopted does not stand in its own way, the
    owner's other claims do, unless he may use what they hold again."""
    if state.topology is None:
        raise NodeNotReady("what this host is made of is not known yet")
    others = state.usage.minus(state.usage_of(owner_id))
    if not state.policy.same_host_resize_reuse:
        others = others.plus(owner_usage(state.claims_of(owner_id), None))
    return Host(
        name=state.node.hypervisor_hostname,
        topology=state.topology,
        usage=others.numa,
        policy=state.policy.numa,
    )


def _with_use(state: HostState, owner_id: str, shared: Shared) -> Shared:
    """And what the owner's domain has that no claim says: an orphan's devices are its own when it
    is adopted; of one that is shut off, as far as nobody else has got them meanwhile."""
    holding = state.holdings.get(owner_id)
    if holding is None:
        return shared
    claimed = {device.address for claim in state.claims_of(owner_id) for device in claim.pci}
    used = dict.fromkeys(holding.occupancy.devices - claimed, "")
    members = {name for name, owner in holders(state).items() if owner == owner_id}
    return Shared(devices={**used, **shared.devices}, members=shared.members | members)


def device_fit(
    state: HostState,
    owner_id: str,
    requests: Sequence[DeviceRequest],
    shared: Shared = NOTHING_SHARED,
) -> DeviceFit | None:
    """What an owner asks for of a host's devices; None: there are none to be had, or to be steered
    off."""
    if not requests and not state.devices:
        return None
    assert state.topology is not None
    return DeviceFit(
        requests,
        holdings(state) if requests else Holdings(state.devices, ()),
        owner_id,
        where=state.node.hypervisor_hostname,
        sockets={cell.id: cell.sockets for cell in state.topology.cells},
        offered=_with_use(state, owner_id, shared).devices,
    )


def _given(placed: Fitted | Refused, devices: DeviceFit | None) -> FittedDevices | Refused | None:
    """The devices near to where the guest is; where it is nowhere, those it could have anywhere."""
    if devices is None:
        return None
    cells = placed.assignment.cells if isinstance(placed, Fitted) else ()
    return devices.fit(frozenset(cell.id for cell in cells))


def _reasons(*answers: object) -> Iterator[Reason]:
    for answer in answers:
        if isinstance(answer, Refused):
            yield from answer.reasons
