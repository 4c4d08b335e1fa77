"""The owners of a host's resources, as the host map lists them."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

from markupsafe import Markup

from rtagent.api.page import quantities
from rtagent.api.page.badges import Badge, Badges
from rtagent.api.page.quantities import TIMES
from rtagent.api.page.rendering import part
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.node_state import NodeState
from rtagent.model.usage import Usage
from rtagent.reconcile.drift import drifts, orphans

#: The state of a domain that no claim accounts for.
NO_CLAIM = "no claim"


class Owner(Value, frozen=True, kw_only=True):
    """One owner, as a row.

    :ivar uuid: of the instance or of the foreign domain. :ivar state: of its claims, in words.
    :ivar flags: problems, each in a few words.
    :ivar claims: uuids of its claims. :ivar cpus: host CPUs that are dedicated to it.
    :ivar kept: idle thread siblings that it reserves.
    :ivar cells: the host cells of its memory, with the pages of an explicit size.
    :ivar devices: addresses. :ivar units: names of other assigned resources.
    :ivar usage: what it counts for.
    """

    uuid: str
    name: str
    badge: Badge
    state: str
    flags: tuple[str, ...]
    claims: tuple[str, ...]
    cpus: str
    kept: str
    vcpus: int
    memory: str
    disk: str
    cells: tuple[str, ...]
    devices: tuple[str, ...]
    units: tuple[str, ...]
    usage: Usage


class _Row(Value, frozen=True, kw_only=True):
    """:ivar made_of: what the row depends on."""

    made_of: tuple[object, ...]
    owner: Owner
    html: Markup


class OwnerRows:
    """The rows of the owners. One is made again only when it differs, because there may be
    thousands. Thread-safe."""

    def __init__(self, *, linked: bool = False) -> None:
        """:param linked: each name is a link to the page of the owner's claim."""
        self._linked, self._lock = linked, threading.Lock()
        self._badges, self._rows = Badges(), dict[str, _Row]()

    def of(
        self, state: NodeState, tested: str | None = None
    ) -> tuple[Mapping[str, Owner], Sequence[Markup]]:
        """Return the owners by uuid, and their rows in the same order: those with claims in order
        of creation, then foreign domains.

        :param tested: the owner of a claim that was not made, so there is no page of it.
        """
        claims = state.claims
        first = sorted((claims[uuids[0]].created_at, each) for each, uuids in state.owners.items())
        uuids = [*(each for _, each in first), *(each.domain_uuid for each in orphans(state))]
        drifting = {each.owner_id for each in drifts(state)}
        with self._lock:
            badges = self._badges.of(uuids)
            rows = {
                each: self._row(
                    state, each, badges[each], each in drifting, self._linked and each != tested
                )
                for each in uuids
            }
            self._rows = rows
        return (
            {uuid: row.owner for uuid, row in rows.items()},
            [row.html for row in rows.values()],
        )

    def _row(self, state: NodeState, uuid: str, badge: Badge, drifting: bool, linked: bool) -> _Row:
        claims = state.claims_of(uuid)
        made_of = (*claims, state.domain_usages.get(uuid), badge, drifting, linked)
        known = self._rows.get(uuid)
        if known is not None and _identical(known.made_of, made_of):
            return known
        owner = _owner(state, uuid, badge, drifting)
        claim = owner.claims[0] if linked and owner.claims else None
        html = part("units.html", "owner_row", owner, claim)
        return _Row(made_of=made_of, owner=owner, html=html)


def _identical(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether both have the very same values. Values are frozen, and expensive to compare."""
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _owner(state: NodeState, uuid: str, badge: Badge, drifting: bool) -> Owner:
    claims, domain = state.claims_of(uuid), state.domain_usages.get(uuid)
    alone = len(claims) == 1 and domain is None
    usage = claims[0].usage if alone else state.usage_of(uuid)
    occupied = domain.occupancy.devices if domain is not None and domain.active else frozenset()
    numa = usage.numa
    return Owner(
        uuid=uuid,
        name=_name(claims, domain.name if domain else None) or uuid,
        badge=badge,
        state=", ".join(dict.fromkeys(claim.state for claim in claims)) or NO_CLAIM,
        flags=tuple(_flags(claims, drifting)),
        claims=tuple(claim.uuid for claim in claims),
        cpus=format_cpu_spec(cpu for cpu, number in numa.pinned.items() if number),
        kept=format_cpu_spec(cpu for cpu, number in numa.kept.items() if number),
        vcpus=usage.vcpus,
        memory=quantities.megabytes(usage.memory_mb),
        disk=quantities.megabytes(usage.disk_mb) if usage.disk_mb else "",
        cells=tuple(_cells(usage)),
        devices=tuple(sorted({each.address for claim in claims for each in claim.pci} | occupied)),
        units=tuple(_units(claims)),
        usage=usage,
    )


def _name(claims: Iterable[Claim], domain: str | None) -> str | None:
    return next((claim.instance.display_name for claim in claims), None) or domain


def _flags(claims: Iterable[Claim], drifting: bool) -> Iterator[str]:
    if any(claim.suspect for claim in claims):
        yield "suspect"
    if drifting:
        yield "drift"


def _cells(usage: Usage) -> Iterator[str]:
    numa = usage.numa
    for cell, memory in sorted(numa.memory_mb.items()):
        pools = [(size, n) for (where, size), n in numa.pages.items() if where == cell and n]
        for size, number in sorted(pools):
            yield f"{cell}: {number} {TIMES} {quantities.size(size)}"
        if memory and not pools:
            yield str(cell)


def _units(claims: Iterable[Claim]) -> Iterator[str]:
    for claim in claims:
        for unit in claim.resources:
            yield f"{unit.resource_class} {unit.identifier}"
        for each in claim.quantities:
            yield f"{each.quantity} {TIMES} {each.resource_class}"
