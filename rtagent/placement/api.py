"""PlacementAPI: the requests to Placement, as the protocol that clients implement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Protocol


class PlacementAPI(Protocol):
    """Placement's HTTP API. Each call is one request, except that `ensure_traits` sends one more
    for each new trait, and `ensure_classes` one for each class.

    :raises PlacementConflict: the generation of the provider has changed, or it was deleted.
    :raises PlacementUnavailable: no answer, 5xx, or a refused token.
    :raises PlacementError: any other failure; ``code`` in kwargs is Placement's error code.
    """

    def provider(self, uuid: str) -> Mapping[str, Any] | None:
        """``GET /resource_providers/{uuid}``: the provider, or None."""
        ...

    def provider_named(self, name: str) -> Mapping[str, Any] | None:
        """``GET /resource_providers?name=``: the provider of that name, or None."""
        ...

    def create_provider(self, uuid: str, name: str, parent: str | None = None) -> Mapping[str, Any]:
        """``POST /resource_providers``: the provider as created.

        :raises PlacementError: with the code of a duplicate: the name or the uuid exists.
        """
        ...

    def delete_provider(self, uuid: str) -> None:
        """``DELETE /resource_providers/{uuid}``. A provider that does not exist is not an error.

        :raises PlacementError: with the code of a provider in use: it has allocations.
        """
        ...

    def inventories(self, uuid: str) -> Mapping[str, Any]:
        """Return ``{"inventories": {class: {...}}, "resource_provider_generation"}``."""
        ...

    def put_inventories(
        self, uuid: str, generation: int, inventories: Mapping[str, Mapping[str, Any]]
    ) -> int:
        """Replace all. Return the new generation."""
        ...

    def traits(self, uuid: str) -> Mapping[str, Any]:
        """Return ``{"traits": [...], "resource_provider_generation"}``."""
        ...

    def put_traits(self, uuid: str, generation: int, traits: Sequence[str]) -> int:
        """Replace all. Return the new generation."""
        ...

    def ensure_traits(self, names: Sequence[str]) -> frozenset[str]:
        """Create the missing CUSTOM_* traits. Return those of `names` that exist afterwards."""
        ...

    def ensure_classes(self, names: Sequence[str]) -> None:
        """Create the missing CUSTOM_* resource classes among `names`."""
        ...

    def allocations(self, uuid: str) -> Mapping[str, Any]:
        """Return ``{"allocations": {consumer: {...}}}`` of a provider."""
        ...

    def consumer(self, uuid: str) -> Mapping[str, Any]:
        """``GET /allocations/{uuid}``: the allocations of a consumer by provider, its generation,
        type, project and user; ``{"allocations": {}}`` if it has none.
        """
        ...

    def put_consumer(self, uuid: str, content: Mapping[str, Any]) -> None:
        """``PUT /allocations/{uuid}``: replace all allocations of a consumer.

        :raises PlacementConflict: the consumer has another generation, or a provider has too little
            left.
        """
        ...

    def post_consumers(self, contents: Mapping[str, Mapping[str, Any]]) -> None:
        """``POST /allocations``: replace all allocations of several consumers, or none.

        :raises PlacementConflict: as `put_consumer`.
        """
        ...

    def reshape(
        self,
        inventories: Mapping[str, Mapping[str, Any]],
        allocations: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """``POST /reshaper``: replace all inventories of these providers and all allocations of
        these consumers together, or nothing.

        :raises PlacementConflict: a provider or a consumer has another generation.
        """
        ...

    def tree(self, uuid: str) -> Sequence[Mapping[str, Any]]:
        """``GET /resource_providers?in_tree=``: all providers of the tree that has this one."""
        ...

    def aggregates(self, uuid: str) -> frozenset[str]:
        """Return the aggregates of a provider."""
        ...

    def sharing_providers(self, aggregates: Set[str]) -> Sequence[Mapping[str, Any]]:
        """Return the providers in any of these aggregates that share their inventory with them."""
        ...
