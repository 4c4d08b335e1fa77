"""The owners of a host's resources, as the host map lists them, and their badges: the colour,
pattern and code by which the pages show an owner."""

import operator
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from markupsafe import Markup

from rtagent.api.page.rendering import part, size
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.node_state import NodeState
from rtagent.model.usage import Usage
from rtagent.reconcile.drift import drifts, orphans

#: Hues and patterns of ``page.css``: the classes h0, h1, ... and p0, p1, ...
HUES, PATTERNS = 10, 4
#: The letters of the hues. I is left out, because it resembles 1.
LETTERS = "ABCDEFGHJK"
#: Steps from one hue to that of the next owner, so that neighbours differ clearly.
_STEP = 3


class Badge(Value, frozen=True, kw_only=True):
    """A colour, a pattern and a code.

    :ivar code: a letter for the hue, and a number if several owners have it: ``C``, ``C2``.
    :ivar style: the classes of hue and pattern.
    """

    code: str
    style: str


@cache
def badge(number: int) -> Badge:
    """Return one of endlessly many badges, by its number from 0."""
    again, hue = number // HUES, number * _STEP % HUES
    return Badge(
        code=LETTERS[hue] + (str(again + 1) if again else ""),
        style=f"badge h{hue} p{again % PATTERNS}",
    )


class Badges:
    """The badges of the owners. An owner keeps its badge as long as it is known."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, owners: Iterable[str]) -> Mapping[str, Badge]:
        """Return the badge of each owner, and forget all others. New owners get free badges, in the
        order in which they are given."""
        uuids = list(dict.fromkeys(owners))
        numbers = {uuid: self._numbers[uuid] for uuid in uuids if uuid in self._numbers}
        used, free = set(numbers.values()), 0
        for uuid in uuids:
            if uuid not in numbers:
                while free in used:
                    free += 1
                numbers[uuid] = free
                used.add(free)
        self._numbers = numbers
        return {uuid: badge(numbers[uuid]) for uuid in uuids}


class Owner(Value, frozen=True, kw_only=True):
    """One owner.

    :ivar uuid: of the instance or of the foreign domain. :ivar claims: its claims.
    :ivar domain: how its domain differs from them, or all of it if there are none.
    :ivar usage: what it counts for. :ivar flags: problems, each in a few words.
    """

    uuid: str
    badge: Badge
    claims: tuple[Claim, ...]
    domain: DomainUsage | None
    usage: Usage
    flags: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of the instance, or of the domain."""
        names = (claim.instance.display_name for claim in self.claims)
        return next(names, None) or (self.domain.name if self.domain else None) or self.uuid

    @property
    def states(self) -> list[str]:
        """The states of its claims, without repetition."""
        return list(dict.fromkeys(claim.state for claim in self.claims))

    @property
    def devices(self) -> list[str]:
        """The addresses of its devices."""
        active = self.domain is not None and self.domain.active
        occupied = self.domain.occupancy.devices if self.domain and active else frozenset()
        return sorted({device.address for claim in self.claims for device in claim.pci} | occupied)

    @property
    def cells(self) -> list[str]:
        """Its host cells, each with its pages of each size."""
        numa = self.usage.numa
        pages: dict[int, list[str]] = {cell: [] for cell in sorted(numa.memory_mb)}
        for (cell, kib), number in sorted(numa.pages.items()):
            pages.setdefault(cell, []).append(f"{cell}: {number} \u00d7 {size(kib)}")
        return [text for cell, texts in pages.items() for text in texts or [str(cell)]]


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
        first = sorted(
            (claims[uuids[0]].created_at, owner) for owner, uuids in state.owners.items()
        )
        owners = [*(owner for _, owner in first), *(usage.domain_uuid for usage in orphans(state))]
        drifting = {drift.owner_id for drift in drifts(state)}
        with self._lock:
            badges = self._badges.of(owners)
            rows = {
                uuid: self._row(
                    state, uuid, badges[uuid], uuid in drifting, self._linked and uuid != tested
                )
                for uuid in owners
            }
            self._rows = rows
        return (
            {uuid: row.owner for uuid, row in rows.items()},
            [row.html for row in rows.values()],
        )

    def _row(self, state: NodeState, uuid: str, badge: Badge, drifting: bool, linked: bool) -> _Row:
        claims = state.claims_of(uuid)
        made_of = (*claims, state.domain_usages.get(uuid), badge, drifting, linked)
        row = self._rows.get(uuid)
        if row is not None and _identical(row.made_of, made_of):
            return row
        owner = _owner(state, uuid, badge, drifting)
        html = part("units.html", "owner_row", owner, linked)
        return _Row(made_of=made_of, owner=owner, html=html)


def _identical(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether both have the very same values. Values are frozen, and expensive to compare."""
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _owner(state: NodeState, uuid: str, badge: Badge, drifting: bool) -> Owner:
    claims, domain = state.claims_of(uuid), state.domain_usages.get(uuid)
    alone = len(claims) == 1 and domain is None
    return Owner(
        uuid=uuid,
        badge=badge,
        claims=claims,
        domain=domain,
        usage=claims[0].usage if alone else state.usage_of(uuid),
        flags=tuple(_flags(claims, drifting)),
    )


def _flags(claims: Iterable[Claim], drifting: bool) -> Iterator[str]:
    if any(claim.suspect for claim in claims):
        yield "suspect"
    if drifting:
        yield "drift"
