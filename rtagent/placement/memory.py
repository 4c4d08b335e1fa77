"""MemoryPlacement: a fake with Placement's rules for generations, names and inventories in use.

Besides the `PlacementAPI` it has what other clients do to a provider (`overwrite`, `allocate`,
`delete`), and it can be made to fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import os_resource_classes
import os_traits

from rtagent.errors import PlacementConflict, PlacementError
from rtagent.placement.client import (
    DUPLICATE_NAME,
    INVENTORY_IN_USE,
    PROVIDER_IN_USE,
    UNDEFINED,
)
from rtagent.placement.provider import CUSTOM


class MemoryPlacement:
    """A `PlacementAPI` for tests.

    :ivar requests: the names of the calls, oldest first.
    :ivar failure: what every call raises, or None. :ivar failures: the same by name of the call.
    :ivar contended: how many of the next writes fail because of a concurrent update.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.failure: PlacementError | None = None
        self.failures: dict[str, PlacementError] = {}
        self.contended = 0
        self._providers: dict[str, dict[str, Any]] = {}
        self._traits = set(os_traits.get_traits())
        self._classes = set(os_resource_classes.STANDARDS)

    # -- what other clients do ---------------------------------------------------------------------

    def shown(self, uuid: str) -> Mapping[str, Any]:
        """Return ``{"name", "parent", "generation", "inventories", "traits", "allocations"}``."""
        return deepcopy(self._providers[uuid])

    def overwrite(self, uuid: str, **parts: Any) -> None:
        """Replace a provider's inventories or traits, as another writer does."""
        self._traits |= set(parts.get("traits", ()))
        self._classes |= set(parts.get("inventories", ()))
        self._providers[uuid] |= parts
        self._providers[uuid]["generation"] += 1

    def allocate(self, uuid: str, consumer: str, resources: Mapping[str, int]) -> None:
        """Set a consumer's allocation; {} removes it."""
        self._providers[uuid]["allocations"].pop(consumer, None)
        if resources:
            self._providers[uuid]["allocations"][consumer] = dict(resources)
        self._providers[uuid]["generation"] += 1

    def delete(self, uuid: str) -> None:
        """Delete a provider."""
        del self._providers[uuid]

    # -- PlacementAPI -----------------------------------------------------------------------------

    def provider(self, uuid: str) -> Mapping[str, Any] | None:
        self._request("provider")
        return self._summary(uuid) if uuid in self._providers else None

    def provider_named(self, name: str) -> Mapping[str, Any] | None:
        self._request("provider_named")
        named = (u for u, provider in self._providers.items() if provider["name"] == name)
        return next(map(self._summary, named), None)

    def create_provider(self, uuid: str, name: str, parent: str | None = None) -> Mapping[str, Any]:
        self._request("create_provider")
        names = {provider["name"] for provider in self._providers.values()}
        if parent is not None and parent not in self._providers:
            raise _refusal(UNDEFINED, f"parent {parent} of {name} does not exist")
        if uuid in self._providers or name in names:
            raise _refusal(DUPLICATE_NAME, f"provider {name} or {uuid} exists")
        self._providers[uuid] = {
            "name": name,
            "parent": parent,
            "generation": 0,
            "inventories": {},
            "traits": [],
            "allocations": {},
        }
        return self._summary(uuid)

    def delete_provider(self, uuid: str) -> None:
        self._request("delete_provider")
        if uuid in self._providers and self._providers[uuid]["allocations"]:
            raise _refusal(PROVIDER_IN_USE, f"provider {uuid} in use")
        self._providers.pop(uuid, None)

    def inventories(self, uuid: str) -> Mapping[str, Any]:
        self._request("inventories")
        return self._part(uuid, "inventories")

    def put_inventories(
        self, uuid: str, generation: int, inventories: Mapping[str, Mapping[str, Any]]
    ) -> int:
        self._request("put_inventories", uuid)
        provider = self._current(uuid, generation)
        used = {name for each in provider["allocations"].values() for name in each}
        if used & set(provider["inventories"]) - set(inventories):
            raise _refusal(INVENTORY_IN_USE, f"inventory of provider {uuid} in use")
        if set(inventories) - self._classes:
            raise _refusal(UNDEFINED, f"No such class {set(inventories) - self._classes}")
        if any(record["reserved"] > record["total"] for record in inventories.values()):
            raise _refusal(UNDEFINED, "reserved is more than total")
        return self._replace(provider, "inventories", dict(inventories))

    def traits(self, uuid: str) -> Mapping[str, Any]:
        self._request("traits")
        return self._part(uuid, "traits")

    def put_traits(self, uuid: str, generation: int, traits: Sequence[str]) -> int:
        self._request("put_traits", uuid)
        provider = self._current(uuid, generation)
        if set(traits) - self._traits:
            raise _refusal(UNDEFINED, f"No such trait {set(traits) - self._traits}")
        return self._replace(provider, "traits", list(traits))

    def ensure_traits(self, names: Sequence[str]) -> frozenset[str]:
        self._request("ensure_traits")
        self._traits |= {name for name in names if name.startswith(CUSTOM)}
        return frozenset(names) & self._traits

    def ensure_classes(self, names: Sequence[str]) -> None:
        self._request("ensure_classes")
        self._classes |= {name for name in names if name.startswith(CUSTOM)}

    def allocations(self, uuid: str) -> Mapping[str, Any]:
        self._request("allocations")
        found = self._part(uuid, "allocations")["allocations"]
        return {"allocations": {c: {"resources": resources} for c, resources in found.items()}}

    # -- Placement's rules -------------------------------------------------------------------------

    def _request(self, name: str, uuid: str | None = None) -> None:
        self.requests.append(name)
        failure = self.failure or self.failures.get(name)
        if failure is not None:
            raise failure
        if self.contended and uuid in self._providers:
            self.contended -= 1
            self._providers[uuid]["generation"] += 1

    def _summary(self, uuid: str) -> Mapping[str, Any]:
        provider = self._providers[uuid]
        return {"uuid": uuid, "name": provider["name"], "generation": provider["generation"]}

    def _known(self, uuid: str) -> dict[str, Any]:
        if uuid not in self._providers:
            raise PlacementConflict(f"provider {uuid} is gone")
        return self._providers[uuid]

    def _part(self, uuid: str, part: str) -> Mapping[str, Any]:
        provider = self._known(uuid)
        content = deepcopy(provider[part])
        return {part: content, "resource_provider_generation": provider["generation"]}

    def _current(self, uuid: str, generation: int) -> dict[str, Any]:
        provider = self._known(uuid)
        if provider["generation"] != generation:
            raise PlacementConflict(f"provider {uuid} has another generation than {generation}")
        return provider

    def _replace(self, provider: dict[str, Any], part: str, content: object) -> int:
        provider[part] = content
        provider["generation"] += 1
        return int(provider["generation"])


def _refusal(code: str, detail: str) -> PlacementError:
    return PlacementError(detail, code=code)
