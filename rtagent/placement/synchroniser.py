"""Makes Placement show a tree, with the fewest requests and against other writers."""

from __future__ import annotations

from collections.abc import Set

import msgspec
from msgspec.structs import replace
from retrying import Retrying

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.model.base import Value
from rtagent.placement import codes, reading
from rtagent.placement.diff import (
    CreateProvider,
    DeleteProvider,
    PutInventories,
    PutTraits,
    Seen,
    diff,
    drained,
    owned,
)
from rtagent.placement.ownership import Ownership, gone
from rtagent.placement.provider import CUSTOM, Contents, Provider, Tree
from rtagent.ports import PlacementAPI, Reporter, Silence

#: How often a provider that others write at the same time is tried in one go.
ATTEMPTS = 4


class Synced(Value, frozen=True, kw_only=True):
    """What came of it.

    :ivar revision: of the state whose tree Placement shows, if there are no problems.
    :ivar problems: what could not be done; everything else is, unless Placement went away.
    :ivar unknown_traits: traits that this Placement does not know, left out.
    """

    revision: int = -1
    problems: tuple[PlacementError, ...] = ()
    unknown_traits: frozenset[str] = frozenset()


class Synchroniser:
    """One thread at a time. What was acknowledged is remembered, so that nothing is sent twice."""

    def __init__(
        self, api: PlacementAPI, ownership: Ownership, reporter: Reporter | None = None
    ) -> None:
        self._api, self._ownership = api, ownership
        self._reporter: Reporter = reporter or Silence()
        self._seen: dict[str, Seen] = {}
        self._asked: frozenset[str] = frozenset()
        self._known: frozenset[str] = frozenset()
        self._classes: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Read everything again at the next call."""
        self._seen.clear()
        self._asked = self._known = self._classes = frozenset()

    def sync(self, tree: Tree) -> Synced:
        """Make Placement show the tree."""
        problems: list[PlacementError] = []
        try:
            for provider in (*tree.providers, *gone(self._ownership, tree)):
                problems += self._provider(provider)
        except PlacementError as error:  # it went away, or what is ours cannot be read
            return Synced(revision=tree.revision, problems=(error,))
        wanted = frozenset[str]().union(*(provider.traits for provider in tree.providers))
        return Synced(
            revision=tree.revision,
            problems=tuple(problems),
            unknown_traits=wanted & self._asked - self._known,
        )

    def _provider(self, wanted: Provider) -> list[PlacementError]:
        """Again while others write it too, each time from what Placement has then."""
        again = Retrying(
            stop_max_attempt_number=ATTEMPTS,
            wait="no_sleep",  # to read it anew takes long enough for the other to be done
            retry_on_exception=self._conflicted,
        )
        try:
            problems: list[PlacementError] = again.call(self._converge, wanted)
        except PlacementUnavailable:
            raise
        except PlacementError as error:
            return [error]
        return problems

    def _conflicted(self, error: Exception) -> bool:
        if not isinstance(error, PlacementConflict):
            return False
        self._reporter.counted("placement", "conflict")
        return True

    def _converge(self, wanted: Provider) -> list[PlacementError]:
        # Taken out meanwhile, so that no failure leaves behind what is not sure any more.
        seen = self._seen.pop(wanted.uuid, None) or reading.read(self._api, wanted)
        wanted = self._understood(wanted, seen)
        before = self._ownership.of(wanted.uuid)
        after = owned(seen, wanted, before)
        self._ownership.remember(wanted, before.plus(after))
        problems: list[PlacementError] = []
        for request in diff(seen, wanted, before):
            if isinstance(request, CreateProvider):
                seen = self._create(request)
            elif seen is not None:
                seen = self._do(request, seen, problems)
        if seen is not None:
            self._seen[wanted.uuid] = seen
        if not problems:
            self._done(wanted, after)
        return problems

    def _done(self, wanted: Provider, ours: Contents) -> None:
        if wanted.gone:
            self._seen.pop(wanted.uuid, None)
            self._ownership.forget(wanted.uuid)
        else:
            self._ownership.remember(wanted, ours)

    def _understood(self, wanted: Provider, seen: Seen | None) -> Provider:
        """Without the traits that this Placement does not know: it would refuse all of them."""
        there = seen.traits if seen else frozenset()
        names = wanted.traits - there - self._asked
        if names:
            self._known |= self._api.ensure_traits(sorted(names))
            self._asked |= names
        return replace(wanted, traits=wanted.traits & (there | self._known))

    def _create(self, request: CreateProvider) -> Seen:
        try:
            made = self._api.create_provider(request.uuid, request.name, request.parent)
        except PlacementError as error:
            if error.kwargs.get("code") != codes.DUPLICATE_NAME:
                # Perhaps its parent was deleted by others.
                self._seen.pop(request.parent or "", None)
                raise
            other = self._api.provider_named(request.name)
            if other is None or other["uuid"] == request.uuid:
                raise PlacementConflict(error.message) from error
            raise reading.taken(
                request.name, request.uuid, other["uuid"], request.parent
            ) from error
        return Seen(generation=made["generation"], traits_generation=made["generation"])

    def _do(
        self,
        request: PutTraits | PutInventories | DeleteProvider,
        seen: Seen,
        problems: list[PlacementError],
    ) -> Seen | None:
        """One part that Placement refuses does not keep the others from being done."""
        try:
            if isinstance(request, DeleteProvider):
                return self._delete(request, seen, problems)
            if isinstance(request, PutTraits):
                return self._put_traits(request, seen)
            return self._put_inventories(request, seen, problems)
        except (PlacementConflict, PlacementUnavailable):
            raise
        except PlacementError as error:
            problems.append(error)
            return seen

    def _delete(
        self, request: DeleteProvider, seen: Seen, problems: list[PlacementError]
    ) -> Seen | None:
        try:
            self._api.delete_provider(request.uuid)
        except PlacementError as error:
            if error.kwargs.get("code") != codes.PROVIDER_IN_USE:
                raise
            problems.append(error)
            return self._drain(PutInventories(request.uuid, {}), seen)
        return None

    def _put_traits(self, request: PutTraits, seen: Seen) -> Seen:
        names = sorted(request.traits)
        generation = self._api.put_traits(request.uuid, seen.traits_generation, names)
        # Nothing was written since the traits were read, so the inventories still hold as well.
        return replace(
            seen, generation=generation, traits_generation=generation, traits=request.traits
        )

    def _put_inventories(
        self, request: PutInventories, seen: Seen, problems: list[PlacementError]
    ) -> Seen:
        try:
            return self._replace_inventories(request, seen)
        except PlacementError as error:
            if error.kwargs.get("code") != codes.INVENTORY_IN_USE:
                raise
            problems.append(error)
            return self._drain(request, seen)

    def _drain(self, request: PutInventories, seen: Seen) -> Seen:
        held = drained(request, seen)
        if held.inventories == seen.inventories:
            return seen
        return self._replace_inventories(held, seen)

    def _replace_inventories(self, request: PutInventories, seen: Seen) -> Seen:
        self._ensure_classes(request.inventories.keys() - seen.inventories.keys())
        records = msgspec.to_builtins(request.inventories)
        generation = self._api.put_inventories(request.uuid, seen.generation, records)
        at_once = seen.traits_generation == seen.generation
        return replace(
            seen,
            generation=generation,
            traits_generation=generation if at_once else seen.traits_generation,
            inventories=request.inventories,
        )

    def _ensure_classes(self, names: Set[str]) -> None:
        new = {name for name in names if name.startswith(CUSTOM)} - self._classes
        if new:
            self._api.ensure_classes(sorted(new))
            self._classes |= new
