"""Room: how many further builds of one flavor succeed on a host, one after another.

The rule that decides a real claim decides each of them, on the state that the builds before it
leave. So the number is that of the claims that the agent would grant, and the reason is that of the
claim which it would refuse.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction

from immutables import Map
from msgspec import UNSET
from msgspec.structs import replace

from rtagent import claims
from rtagent.allocation.capacity import Capacity, capacity_of
from rtagent.allocation.kept_views import host_for_new_owners, keep_views_of_new_owner
from rtagent.allocation.requirements import Requirements
from rtagent.model.base import Value
from rtagent.model.change import Call
from rtagent.model.claim import Claim, Unit
from rtagent.model.decision import Decision, Reason, ReasonCode, Refused
from rtagent.model.derived import derived
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest
from rtagent.model.usage import NOTHING, Usage
from rtagent.numa.host_cells import CellCapacity, host_cells

#: The number of builds at which a count stops. Only of guests with NUMA cells, devices or other
#: units each build is decided by itself.
MAX_BUILDS = 1000

#: The owner of each build is one of these. No instance has such a uuid.
_OWNER = "ffffffff-ffff-4fff-8fff-{:012x}"
#: The time of the builds. It decides nothing.
_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class Room(Value, frozen=True, kw_only=True):
    """The further builds of one flavor.

    :ivar number: of builds that succeed. :ivar more: the count stopped there: it is at least that.
    :ivar reasons: why the next one is refused, nearest miss first.
    :ivar never: why the flavor does not fit the host even if it is empty; "": it does, or it is not
        known. :ivar miss: the missing part of what the empty host lacks most nearly.
    :ivar places: the number of these builds by the host cells that they use.
    :ivar units: that they use.
    :ivar cells: and :ivar left: what the host has left after them.
    """

    number: int = 0
    more: bool = False
    reasons: tuple[Reason, ...] = ()
    never: str = ""
    miss: Fraction = Fraction(1)
    places: Mapping[tuple[int, ...], int] = {}
    units: frozenset[Unit] = frozenset()
    cells: tuple[CellCapacity, ...] = ()
    left: Capacity | None = None


@derived
def judged(state: NodeState) -> NodeState:
    """Return the state with a policy that judges vCPUs, memory and disk, also where the agent
    leaves these to Placement: a number without them would be more than fits.
    """
    if state.policy.judges_amounts:
        return replace(state)  # a result must not be its own value
    return replace(state, policy=replace(state.policy, judge_amounts=UNSET))


@derived
def emptied(state: NodeState) -> NodeState:
    """Return the host without claims and domains. Quarantined devices stay so."""
    return replace(
        state,
        claims=Map(),
        owners=Map(),
        domain_usages=Map(),
        migrations=Map(),
        units=Map(),
        usage=NOTHING,
        counters=Map(),
    )


def nothing() -> None:
    """Pause nothing."""


def room(
    state: NodeState,
    build: BuildRequest,
    required: Requirements,
    most: int = MAX_BUILDS,
    pause: Callable[[], None] = nothing,
) -> Room:
    """Count the builds of one flavor that a host takes.

    :param state: one that `judged` returns, of a host that was observed. Whether the node drains
        does not matter.
    :param build: a request without allocations. :param required: its requirements there.
    :param most: the number at which the count stops, unless arithmetic gives it.
    :param pause: called between decisions.
    """
    counted = builds(state, build, required, most, pause)
    if counted.number or any(each.code == ReasonCode.UNDECIDED for each in counted.reasons):
        return counted
    alone = decide(emptied(state), build, required, 0)
    if not isinstance(alone, Refused):
        return counted
    return replace(counted, never=_never(alone, state), miss=alone.reasons[0].miss)


def builds(
    state: NodeState,
    build: BuildRequest,
    required: Requirements,
    most: int,
    pause: Callable[[], None] = nothing,
) -> Room:
    """Count as `room` does, but do not examine whether the flavor ever fits. If sums do not decide
    alone, build until a build is refused.
    """
    counted = _plain(state, build, required) if required.is_plain else None
    if counted is not None:
        return counted
    places, before, after, reasons = Counter[tuple[int, ...]](), state.units, state, None
    number = 0
    while number < most and reasons is None:
        pause()
        decision = decide(after, build, required, number)
        if isinstance(decision, Refused):
            reasons = decision.reasons
            continue
        number += 1
        assigned = decision.claims[0].numa_topology
        cells = assigned.cells if assigned is not None else ()
        places[tuple(sorted(cell.id for cell in cells))] += 1
        after = _with_claim(after, decision.claims[0])
    return Room(
        number=number,
        more=reasons is None,
        reasons=reasons or (),
        places=dict(places),
        units=frozenset(unit for unit in after.units if unit not in before),
        cells=host_cells(host_for_new_owners(after)),
        left=capacity_of(after),
    )


def decide(state: NodeState, build: BuildRequest, required: Requirements, number: int) -> Decision:
    """Decide on the build with this number. Each number is an owner of its own."""
    owner = _OWNER.format(number)
    asked = replace(build, instance=replace(build.instance, uuid=owner))
    call = Call(method="capacity", operation_id=owner, digest="")
    return claims.instance_claim(state, call, _TIME, asked, required)


def _with_claim(state: NodeState, claim: Claim) -> NodeState:
    """Return the state with the claim of a new owner: what `NodeState.fold` makes of it, without
    statistics and history, which decide nothing.
    """
    usage, owner = claim.usage, claim.owner_id
    after = replace(
        state,
        revision=claim.revision,
        claims=state.claims.set(claim.uuid, claim),
        owners=state.owners.set(owner, (claim.uuid,)),
        usage=state.usage.plus(usage),
        units=state.units.update(dict.fromkeys(claim.units, owner)),
    )
    keep_views_of_new_owner(state, after, owner, usage)
    return after


def _plain(state: NodeState, build: BuildRequest, required: Requirements) -> Room | None:
    """Count the builds of a guest for which the sums decide: by division.

    The rule reads of other guests only the sums that a build adds to. If it grants one build, it
    grants each that the sums leave something for, because all else stays as it is.

    :returns: None: not even one fits.
    """
    if isinstance(decide(state, build, required, 0), Refused):
        return None
    free, usage = capacity_of(state), required.usage
    shares = (
        (free.free_vcpus, usage.vcpus),
        (free.free_memory_mb, usage.memory_mb),
        (free.free_disk_mb, usage.disk_mb if free.disk_checked else 0),
    )
    number = min(available // quantity for available, quantity in shares if quantity)
    used = Usage(
        vcpus=number * usage.vcpus,
        memory_mb=number * usage.memory_mb,
        disk_mb=number * usage.disk_mb,
    )
    after = replace(state, usage=state.usage.plus(used))
    decision = decide(after, build, required, number)
    return Room(
        number=number,
        reasons=decision.reasons if isinstance(decision, Refused) else (),
        places={(): number},
        cells=host_cells(host_for_new_owners(state)),
        left=capacity_of(after),
    )


def _never(alone: Refused, state: NodeState) -> str:
    """Return why a flavor never fits, in the words of the refusal by the empty host."""
    assert state.topology is not None
    nearest = alone.reasons[0]
    if nearest.code == ReasonCode.UNDECIDED:
        return ""
    asked = f"needs {nearest.requested} {nearest.unit}"
    if nearest.code == ReasonCode.EXCEEDS_HOST:
        return f"{asked} ({nearest.resource}), the host has {nearest.available}"
    same = [
        each
        for each in alone.reasons
        if each.code == ReasonCode.EXCEEDS_CELL
        and (each.resource, each.requested) == (nearest.resource, nearest.requested)
    ]
    if len(same) == len(state.topology.cells):
        return f"{asked} ({nearest.resource}) in one cell, the largest has {nearest.available}"
    return str(nearest)
