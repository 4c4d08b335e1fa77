"""Synchroniser: makes Placement match a tree, with the fewest requests, despite other writers."""

from collections.abc import Callable, Set
from typing import Any

import msgspec
from msgspec.structs import replace
from retrying import Retrying

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.model.base import Value
from rtagent.placement.client import (
    DUPLICATE_NAME,
    INVENTORY_IN_USE,
    PROVIDER_IN_USE,
    HttpPlacement,
)
from rtagent.placement.diff import (
    CreateProvider,
    DeleteProvider,
    PutInventories,
    PutTraits,
    diff,
    drained,
    owned_after,
    remaining,
)
from rtagent.placement.provider import (
    CUSTOM,
    CurrentProvider,
    Ownership,
    Provider,
    Tree,
    inventory_records,
    obsolete_providers,
)
from rtagent.ports import NullReporter, Reporter

#: How often a provider is tried in one pass while other clients write to it.
ATTEMPTS = 4


def read_provider(api: HttpPlacement, wanted: Provider) -> CurrentProvider | None:
    """Read the provider with the uuid of the wanted one; None if there is none.

    :raises PlacementError: it belongs to another host. The message names the remedy.
    """
    found = api.provider(wanted.uuid)
    if found is None:
        return None
    if found["name"] != wanted.name:
        raise _name_differs(wanted, found["name"])
    return read_contents(api, wanted.uuid)


def read_contents(api: HttpPlacement, uuid: str) -> CurrentProvider:
    """Read a provider that exists."""
    # The inventories are read last: they change most often, and each request after the read gives
    # other writers time.
    traits = api.traits(uuid)
    inventories = api.inventories(uuid)
    return CurrentProvider(
        generation=inventories["resource_provider_generation"],
        traits_generation=traits["resource_provider_generation"],
        inventories=inventory_records.convert(inventories["inventories"]),
        traits=frozenset(traits["traits"]),
    )


class PassResult(Value, frozen=True, kw_only=True):
    """What one pass achieved.

    :ivar revision: of the state whose tree Placement has, if there are no problems.
    :ivar problems: what failed. All the rest is done, unless Placement became unavailable.
    :ivar unknown_traits: traits that were left out because this Placement does not know them.
    """

    revision: int = -1
    problems: tuple[PlacementError, ...] = ()
    unknown_traits: frozenset[str] = frozenset()


class Synchroniser:
    """For one thread at a time. It caches what Placement acknowledged and sends only changes."""

    def __init__(
        self,
        api: HttpPlacement,
        ownership: Ownership,
        reporter: Reporter | None = None,
        give_way: Callable[[], None] = lambda: None,
    ) -> None:
        """:param give_way: called before each provider."""
        self._api, self._ownership, self._give_way = api, ownership, give_way
        self._reporter = (reporter or NullReporter()).named(__name__)
        self._current: dict[str, CurrentProvider] = {}
        self._looks_again = False
        self._queried_traits: frozenset[str] = frozenset()
        self._known_traits: frozenset[str] = frozenset()
        self._classes: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Clear the cache, so that the next pass reads everything."""
        self._current.clear()
        self._looks_again = False
        self._queried_traits = self._known_traits = self._classes = frozenset()

    def look_again(self) -> None:
        """Have the next pass look for what other writers have changed."""
        self._looks_again = True

    def sync(self, tree: Tree) -> PassResult:
        """Make Placement match the tree."""
        problems: list[PlacementError] = []
        try:
            if self._looks_again:
                self._forget_changed(tree)
            for provider in (*tree.providers, *obsolete_providers(self._ownership, tree)):
                self._give_way()
                problems += self.sync_provider(provider)
        except PlacementError as error:  # no response, or the ownership records cannot be read
            return PassResult(revision=tree.revision, problems=(error,))
        wanted = frozenset[str]().union(*(provider.traits for provider in tree.providers))
        return PassResult(
            revision=tree.revision,
            problems=tuple(problems),
            unknown_traits=wanted & self._queried_traits - self._known_traits,
        )

    def _forget_changed(self, tree: Tree) -> None:
        """Clear the cache of providers that other writers have changed. Each change of inventories
        or traits increases a provider's generation, and one request shows those of the whole tree.
        """
        cached = dict(self._current)
        self.forget()
        if not cached:
            return
        listed = self._api.tree(tree.providers[0].uuid)
        shown = {(each["uuid"], each["name"], each["generation"]) for each in listed}
        self._current = {
            provider.uuid: known
            for provider in tree.providers
            if (known := cached.get(provider.uuid)) is not None
            and known.generation == known.traits_generation
            and (provider.uuid, provider.name, known.generation) in shown
        }

    def sync_trait(self, tree: Tree, trait: str) -> list[PlacementError]:
        """Make the root provider, if Placement has it, match the tree in one standard trait. Return
        what failed.
        """
        root = tree.providers[0]
        try:
            return list(self._retried(self._converge_trait, root, trait))
        except PlacementError as error:
            return [error]

    def sync_provider(self, wanted: Provider) -> list[PlacementError]:
        """Make one provider match, and return what failed.

        Retry while other clients write to the provider, each time from its current contents. An
        outage is not retried here but raised: the mirror repeats the whole pass later.
        """
        try:
            return self._retried(self._converge, wanted)
        except PlacementUnavailable:
            raise
        except PlacementError as error:
            return [error]

    def _retried(
        self, converge: Callable[..., list[PlacementError]], *arguments: Any
    ) -> list[PlacementError]:
        retrying = Retrying(
            stop_max_attempt_number=ATTEMPTS,
            wait="no_sleep",  # the other writer finishes while the provider is read again
            retry_on_exception=self._is_conflict,
        )
        problems: list[PlacementError] = retrying.call(converge, *arguments)
        return problems

    def _converge_trait(self, root: Provider, trait: str) -> list[PlacementError]:
        # It is not cached: a reshape, which follows, changes it.
        current = read_provider(self._api, root)
        problems: list[PlacementError] = []
        if current is not None and (trait in root.traits) != (trait in current.traits):
            self._send(PutTraits(root.uuid, current.traits ^ {trait}), current, problems)
        return problems

    def _is_conflict(self, error: Exception) -> bool:
        if not isinstance(error, PlacementConflict):
            return False
        self._reporter.counted("placement", "conflict")
        return True

    def _converge(self, wanted: Provider) -> list[PlacementError]:
        # Removed from the cache until the end, so that a failure leaves no entry that may be wrong.
        current = self._current.pop(wanted.uuid, None) or read_provider(self._api, wanted)
        wanted = self._without_unknown_traits(wanted, current)
        before = self._ownership.of(wanted.uuid)
        after = owned_after(current, wanted, before)
        self._ownership.remember(wanted, before.union(after))
        problems: list[PlacementError] = []
        for request in diff(current, wanted, before):
            if isinstance(request, CreateProvider):
                current = self._create(request)
            elif current is not None:
                current = self._send(request, current, problems)
        if wanted.obsolete and not problems:
            self._ownership.forget(wanted.uuid)
        elif current is not None:
            self._current[wanted.uuid] = current
            # A record that is gone is no longer owned: if it comes back, another client has set it.
            kept = after.union(remaining(current, before)) if problems else after
            self._ownership.remember(wanted, kept)
        return [_explained(problem, wanted) for problem in problems]

    def _without_unknown_traits(
        self, wanted: Provider, current: CurrentProvider | None
    ) -> Provider:
        """Leave out the traits that this Placement does not know: it would refuse all of them."""
        present = current.traits if current else frozenset()
        names = wanted.traits - present - self._queried_traits
        if names:
            self._known_traits |= self._api.ensure_traits(sorted(names))
            self._queried_traits |= names
        return replace(wanted, traits=wanted.traits & (present | self._known_traits))

    def _create(self, request: CreateProvider) -> CurrentProvider:
        try:
            created = self._api.create_provider(request.uuid, request.name, request.parent)
        except PlacementError as error:
            if error.kwargs.get("code") != DUPLICATE_NAME:
                # Perhaps another client has deleted the parent.
                self._current.pop(request.parent or "", None)
                raise
            other = self._api.provider_named(request.name)
            if other is None or other["uuid"] == request.uuid:
                raise PlacementConflict(error.message) from error
            raise _name_taken(request, other["uuid"]) from error
        return CurrentProvider(
            generation=created["generation"], traits_generation=created["generation"]
        )

    def _send(
        self,
        request: PutTraits | PutInventories | DeleteProvider,
        current: CurrentProvider,
        problems: list[PlacementError],
    ) -> CurrentProvider | None:
        """Send one request. If Placement refuses it, the others are sent all the same."""
        try:
            if isinstance(request, DeleteProvider):
                return self._delete(request, current, problems)
            if isinstance(request, PutTraits):
                return self._put_traits(request, current)
            return self._put_inventories(request, current, problems)
        except (PlacementConflict, PlacementUnavailable):
            raise
        except PlacementError as error:
            problems.append(error)
            return current

    def _delete(
        self, request: DeleteProvider, current: CurrentProvider, problems: list[PlacementError]
    ) -> CurrentProvider | None:
        try:
            self._api.delete_provider(request.uuid)
        except PlacementError as error:
            if error.kwargs.get("code") != PROVIDER_IN_USE:
                raise
            problems.append(error)
            return self._drain(PutInventories(request.uuid, {}), current)
        return None

    def _put_traits(self, request: PutTraits, current: CurrentProvider) -> CurrentProvider:
        names = sorted(request.traits)
        generation = self._api.put_traits(request.uuid, current.traits_generation, names)
        # Nothing was written since the traits were read, so the inventories are current, too.
        return replace(
            current, generation=generation, traits_generation=generation, traits=request.traits
        )

    def _put_inventories(
        self, request: PutInventories, current: CurrentProvider, problems: list[PlacementError]
    ) -> CurrentProvider:
        try:
            return self._replace_inventories(request, current)
        except PlacementError as error:
            if error.kwargs.get("code") != INVENTORY_IN_USE:
                raise
            problems.append(error)
            return self._drain(request, current)

    def _drain(self, request: PutInventories, current: CurrentProvider) -> CurrentProvider:
        kept = drained(request, current, self._in_use(request, current))
        if kept.inventories == current.inventories:
            return current
        return self._replace_inventories(kept, current)

    def _in_use(self, request: PutInventories, current: CurrentProvider) -> Set[str]:
        """Return which of the resource classes have allocations whose removal was refused."""
        removed = current.inventories.keys() - request.inventories.keys()
        if len(removed) == 1:
            return removed
        consumers = self._api.allocations(request.uuid)["allocations"].values()
        return {name for consumer in consumers for name in consumer["resources"]}

    def _replace_inventories(
        self, request: PutInventories, current: CurrentProvider
    ) -> CurrentProvider:
        added = request.inventories.keys() - current.inventories.keys()
        new = {name for name in added if name.startswith(CUSTOM)} - self._classes
        if new:
            self._api.ensure_classes(sorted(new))
            self._classes |= new
        records = msgspec.to_builtins(request.inventories)
        generation = self._api.put_inventories(request.uuid, current.generation, records)
        same = current.traits_generation == current.generation
        return replace(
            current,
            generation=generation,
            traits_generation=generation if same else current.traits_generation,
            inventories=request.inventories,
        )


def _explained(problem: PlacementError, provider: Provider) -> PlacementError:
    """Return the problem with the provider's name and what is done, if allocations cause it.

    Placement's message names the provider by its uuid, and the resource classes.
    """
    if problem.kwargs.get("code") not in (INVENTORY_IN_USE, PROVIDER_IN_USE):
        return problem
    return PlacementError(
        f"{provider.name} has allocations of what it no longer offers; all of that is reserved, and"
        f" is removed when they have ended: {problem.message}",
        code=problem.kwargs["code"],
    )


def _name_taken(request: CreateProvider, other: str) -> PlacementError:
    """Return the error for a provider whose name another one has. :param other: its uuid."""
    delete = f"openstack resource provider delete {other}"
    of_root = (
        f"If an earlier installation of this host left that provider behind, delete it ({delete}),"
        " or restore the old identity of this host: write that uuid to the file compute_id in"
        " state_path. If it belongs to another host, one of the two hosts must be renamed."
    )
    of_child = (
        "The agent adopts providers of its devices when it starts: restart it. If that one belongs"
        f" to another service or another host, rename or delete it ({delete})."
    )
    return PlacementError(
        f"Placement already has a provider named {request.name}, with uuid {other}; the uuid of"
        f" this one is {request.uuid}. {of_root if request.parent is None else of_child}",
        provider_uuid=request.uuid,
        other_uuid=other,
    )


def _name_differs(wanted: Provider, name: str) -> PlacementError:
    return PlacementError(
        f"Placement's provider {wanted.uuid} is named {name}, but this node is named {wanted.name}."
        " If the host was renamed, rename the provider (openstack resource provider set --name"
        f" {wanted.name} {wanted.uuid}). If the file compute_id was copied from {name}, this host"
        " must get a compute_id of its own.",
        provider_uuid=wanted.uuid,
        other_name=name,
    )
