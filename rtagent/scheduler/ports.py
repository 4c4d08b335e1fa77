"""Placement, as a selection sees it, and its candidates by host."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from rtagent.allocation.device_shares import request_of
from rtagent.model.base import Value
from rtagent.model.consumers import Parts
from rtagent.model.request import Allocation, Allocations, ProviderMapping
from rtagent.scheduler.placement_request import Query

#: How many candidates of one host are tried: those of a whole answer of Placement, by default. The
#: first ones often have the same devices, which earlier instances of the request have got.
MAX_TRIED = 1000
#: Classes that a guest gets from its own host, never from one that shares them.
COMPUTE = frozenset(("VCPU", "PCPU", "MEMORY_MB"))


class Candidate(Value, frozen=True, kw_only=True):
    """Allocations that Placement would make for a request.

    :ivar request: Placement's document, with allocations and mappings.
    """

    request: Mapping[str, Any]

    @property
    def allocations(self) -> Allocations:
        """The allocations, as a claim has them."""
        return {
            uuid: Allocation(resources=part["resources"])
            for uuid, part in self.request["allocations"].items()
        }

    @property
    def provider_mapping(self) -> ProviderMapping:
        """The providers of each request group, as a claim has them.

        The group without a suffix is left out, and the underscore before the names of others.
        """
        groups: Mapping[str, Sequence[str]] = self.request.get("mappings", {})
        return {name.removeprefix("_"): tuple(uuids) for name, uuids in groups.items() if name}


class Candidates(Value, frozen=True, kw_only=True):
    """Placement's answer. :ivar roots: the root provider of each provider in it."""

    requests: tuple[Mapping[str, Any], ...] = ()
    roots: Mapping[str, str] = {}
    version: str = ""

    def by_host(self, uuids: Collection[str]) -> dict[str, list[Candidate]]:
        """Return the candidates of each of these nodes, in Placement's order, at most `MAX_TRIED`.
        Of candidates that are the same to a claim, only the first is returned.

        Other providers of a candidate share their inventory with the node.
        """
        known, found = frozenset(uuids), dict[str, list[Candidate]]()
        for request in _distinct(self.requests):
            for root in self._hosts(request["allocations"], known):
                candidates = found.setdefault(root, [])
                if len(candidates) < MAX_TRIED:
                    candidates.append(Candidate(request=request))
        return found

    def _hosts(self, allocations: Mapping[str, Any], known: frozenset[str]) -> Collection[str]:
        """Return the nodes of a candidate. A provider that shares its inventory may be in the tree
        of another node, which then is not the candidate's host."""
        classes = dict[str, set[str]]()
        for uuid, part in allocations.items():
            classes.setdefault(self.roots.get(uuid, uuid), set()).update(part["resources"])
        found = classes.keys() & known
        return [each for each in found if not COMPUTE.isdisjoint(classes[each])] or found


def _distinct(requests: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield candidates without those that only permute providers within one device request.
    Placement has a group, and so a permutation, for each of its devices.
    """
    effects = set[object]()
    for request in requests:
        groups: Mapping[str, Sequence[str]] = request.get("mappings", {})
        if len(groups) > 2:  # two besides that without a suffix
            effect = (
                frozenset(
                    (uuid, *sorted(part["resources"].items()))
                    for uuid, part in request["allocations"].items()
                ),
                frozenset((request_of(name), uuid) for name in groups for uuid in groups[name]),
            )
            if effect in effects:
                continue
            effects.add(effect)
        yield request


#: The effect on allocations that a consumer has already: the new ones replace them, are added to
#: them, or are refused.
REPLACE, ADD, NEW = "replace", "add", "new"


class AllocationRequest(Value, frozen=True, kw_only=True):
    """Allocations to write.

    :ivar existing: `REPLACE`, `ADD` or `NEW`.
    :ivar generation: see `RequestSpec.consumer_generation`.
    """

    consumer_uuid: str
    allocations: Mapping[str, Any]
    mappings: Mapping[str, Any]
    project_id: str | None
    user_id: str | None
    existing: str
    generation: int | None = None


class Written(Value, frozen=True, kw_only=True):
    """Allocations that were written.

    :ivar before: what the consumer had before, by provider and resource class.
    :ivar allocations: what it has since.
    :ivar generation: of the consumer since.
    """

    consumer_uuid: str
    before: Parts
    allocations: Parts
    generation: int


class PlacementPort(Protocol):
    """Placement, see `rtagent.placement.candidates`.

    Every method raises `PlacementUnavailable` if Placement does not answer.
    """

    def allocation_candidates(
        self, query: Query, timeout: float
    ) -> AbstractContextManager[Candidates]:
        """Return the candidates. The context ends when what follows from them is written.

        :param timeout: the most seconds until the query is sent.
        """

    def write(self, request: AllocationRequest) -> Written:
        """Write the allocations of a consumer.

        :raises PlacementConflict: they are not available any more.
        :raises ConsumerHasAllocations: it has some, and `existing` is `NEW`; or it has another
            generation than the request.
        :raises PlacementUnavailable: the allocations may have been written; they are removed, if
            that is possible.
        """

    def undo(self, written: Written) -> None:
        """Write what the consumer had before, unless another caller has written since."""
