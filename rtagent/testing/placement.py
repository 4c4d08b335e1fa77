"""MemoryPlacement: a fake with Placement's rules for generations, names and inventories in use.

Besides the `HttpPlacement` it has what other clients do to a provider (`overwrite`, `allocate`,
`delete`), and it can be made to fail.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from copy import deepcopy
from typing import Any

import os_resource_classes
import os_traits

from rtagent.errors import PlacementConflict, PlacementError
from rtagent.placement.client import (
    CONCURRENT_UPDATE,
    DUPLICATE_NAME,
    INVENTORY_IN_USE,
    PROVIDER_IN_USE,
    SHARING,
    UNDEFINED,
    HttpPlacement,
)
from rtagent.placement.provider import CUSTOM


class MemoryPlacement(HttpPlacement):
    """A client for tests, without requests.

    :ivar requests: the names of the calls, oldest first.
    :ivar failure: what every call raises, or None. :ivar failures: the same by name of the call.
    :ivar contended: how many of the next writes fail because of a concurrent update.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.failure: PlacementError | None = None
        self.failures: dict[str, PlacementError] = {}
        self.contended = 0
        self._stored: dict[str, dict[str, Any]] = {}
        self._consumers: dict[str, dict[str, Any]] = {}
        self._traits = set(os_traits.get_traits())
        self._classes = set(os_resource_classes.STANDARDS)

    # -- what other clients do ---------------------------------------------------------------------

    def shown(self, uuid: str) -> Mapping[str, Any]:
        """Return ``{"name", "parent", "generation", "inventories", "traits", "allocations"}``."""
        return deepcopy(self._stored[uuid])

    def overwrite(self, uuid: str, **parts: Any) -> None:
        """Replace a provider's inventories or traits, as another writer does."""
        self._traits |= set(parts.get("traits", ()))
        self._classes |= set(parts.get("inventories", ()))
        self._stored[uuid] |= parts
        self._stored[uuid]["generation"] += 1

    def allocate(self, uuid: str, consumer: str, resources: Mapping[str, int]) -> None:
        """Set a consumer's allocation; {} removes it."""
        self._stored[uuid]["allocations"].pop(consumer, None)
        if resources:
            self._stored[uuid]["allocations"][consumer] = dict(resources)
            known = {"project_id": "project", "user_id": "user", "consumer_type": "INSTANCE"}
            found = self._consumers.setdefault(consumer, {"consumer_generation": 0, **known})
            found["consumer_generation"] += 1
        self._stored[uuid]["generation"] += 1

    def aggregate(self, uuid: str, *aggregates: str) -> None:
        """Set a provider's aggregates."""
        self._stored[uuid]["aggregates"] = list(aggregates)

    def delete(self, uuid: str) -> None:
        """Delete a provider."""
        del self._stored[uuid]

    # -- HttpPlacement -----------------------------------------------------------------------------

    def provider(self, uuid: str) -> Mapping[str, Any] | None:
        self.before("provider")
        return self._summary(uuid) if uuid in self._stored else None

    def provider_named(self, name: str) -> Mapping[str, Any] | None:
        self.before("provider_named")
        named = (u for u, provider in self._stored.items() if provider["name"] == name)
        return next(map(self._summary, named), None)

    def create_provider(self, uuid: str, name: str, parent: str | None = None) -> Mapping[str, Any]:
        self.before("create_provider")
        names = {provider["name"] for provider in self._stored.values()}
        if parent is not None and parent not in self._stored:
            raise _refusal(UNDEFINED, f"parent {parent} of {name} does not exist")
        if uuid in self._stored or name in names:
            raise _refusal(DUPLICATE_NAME, f"provider {name} or {uuid} exists")
        self._stored[uuid] = {
            "name": name,
            "parent": parent,
            "generation": 0,
            "inventories": {},
            "traits": [],
            "allocations": {},
            "aggregates": [],
        }
        return self._summary(uuid)

    def delete_provider(self, uuid: str) -> None:
        self.before("delete_provider")
        if uuid in self._stored and self._stored[uuid]["allocations"]:
            raise _refusal(PROVIDER_IN_USE, f"provider {uuid} in use")
        self._stored.pop(uuid, None)

    def inventories(self, uuid: str) -> Mapping[str, Any]:
        self.before("inventories")
        return self._part(uuid, "inventories")

    def put_inventories(
        self, uuid: str, generation: int, inventories: Mapping[str, Mapping[str, Any]]
    ) -> int:
        self.before("put_inventories", uuid)
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
        self.before("traits")
        return self._part(uuid, "traits")

    def put_traits(self, uuid: str, generation: int, traits: Sequence[str]) -> int:
        self.before("put_traits", uuid)
        provider = self._current(uuid, generation)
        if set(traits) - self._traits:
            raise _refusal(UNDEFINED, f"No such trait {set(traits) - self._traits}")
        return self._replace(provider, "traits", list(traits))

    def ensure_traits(self, names: Sequence[str]) -> frozenset[str]:
        self.before("ensure_traits")
        self._traits |= {name for name in names if name.startswith(CUSTOM)}
        return frozenset(names) & self._traits

    def ensure_classes(self, names: Sequence[str]) -> None:
        self.before("ensure_classes")
        self._classes |= {name for name in names if name.startswith(CUSTOM)}

    def allocations(self, uuid: str) -> Mapping[str, Any]:
        self.before("allocations")
        found = self._part(uuid, "allocations")["allocations"]
        return {
            "allocations": {
                consumer: {
                    "resources": resources,
                    "consumer_generation": self._consumers[consumer]["consumer_generation"],
                }
                for consumer, resources in found.items()
            }
        }

    def consumer(self, uuid: str) -> Mapping[str, Any]:
        self.before("consumer")
        found = self._allocated(uuid)
        if not found:
            return {"allocations": {}}
        generations = {each: self._stored[each]["generation"] for each in found}
        parts = {u: {"generation": generations[u], "resources": r} for u, r in found.items()}
        return {"allocations": parts, **self._consumers[uuid]}

    def interrupt_consumer(self, uuid: str) -> None:
        """Leave a consumer as a Placement does that is killed during the consumer's first write."""
        self._consumers[uuid] = {"consumer_generation": 0}

    def put_consumer(self, uuid: str, content: Mapping[str, Any]) -> None:
        self.before("put_consumer")
        self._replace_consumers({uuid: content})

    def post_consumers(self, contents: Mapping[str, Mapping[str, Any]]) -> None:
        self.before("post_consumers")
        self._replace_consumers(contents)

    def reshape(
        self,
        inventories: Mapping[str, Mapping[str, Any]],
        allocations: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.before("reshape")
        before = deepcopy(self._stored)
        try:
            for uuid, content in inventories.items():
                provider = self._current(uuid, content["resource_provider_generation"])
                provider["inventories"] = dict(content["inventories"])
            self._replace_consumers(allocations)
        except PlacementError:
            self._stored = before
            raise
        for uuid in inventories:
            self._stored[uuid]["generation"] += 1

    def tree(self, uuid: str) -> Sequence[Mapping[str, Any]]:
        self.before("tree")
        root = self._root(uuid)
        return [self._summary(each) for each in self._stored if self._root(each) == root]

    def aggregates(self, uuid: str) -> frozenset[str]:
        self.before("aggregates")
        return frozenset(self._known(uuid)["aggregates"])

    def provider_aggregates(self, uuid: str) -> Mapping[str, Any]:
        self.before("provider_aggregates")
        return self._part(uuid, "aggregates")

    def put_aggregates(self, uuid: str, generation: int, aggregates: Sequence[str]) -> int:
        self.before("put_aggregates", uuid)
        return self._replace(self._current(uuid, generation), "aggregates", list(aggregates))

    def sharing_providers(self, aggregates: Set[str]) -> Sequence[Mapping[str, Any]]:
        if not aggregates:
            return []
        self.before("sharing_providers")
        return [
            self._summary(uuid)
            for uuid, each in self._stored.items()
            if SHARING in each["traits"] and aggregates & set(each["aggregates"])
        ]

    # -- Placement's rules -------------------------------------------------------------------------

    def before(self, name: str, uuid: str | None = None) -> None:
        """Record a call, before it is executed."""
        self.requests.append(name)
        failure = self.failure or self.failures.get(name)
        if failure is not None:
            raise failure
        if self.contended and uuid in self._stored:
            self.contended -= 1
            self._stored[uuid]["generation"] += 1

    def _summary(self, uuid: str) -> Mapping[str, Any]:
        provider = self._stored[uuid]
        return {
            "uuid": uuid,
            "name": provider["name"],
            "generation": provider["generation"],
            "parent_provider_uuid": provider["parent"],
        }

    def _root(self, uuid: str) -> str | None:
        while uuid in self._stored and self._stored[uuid]["parent"]:
            uuid = self._stored[uuid]["parent"]
        return uuid if uuid in self._stored else None

    def _allocated(self, consumer: str) -> dict[str, Any]:
        return {
            uuid: deepcopy(each["allocations"][consumer])
            for uuid, each in self._stored.items()
            if consumer in each["allocations"]
        }

    def _replace_consumers(self, contents: Mapping[str, Mapping[str, Any]]) -> None:
        for uuid, content in contents.items():
            known = self._consumers.get(uuid, {}).get("consumer_generation")
            if content.get("consumer_generation") != known:
                raise PlacementConflict(
                    f"consumer {uuid} has generation {known}", code=CONCURRENT_UPDATE
                )
        before = deepcopy(self._stored)
        for uuid, content in contents.items():
            for provider in self._allocated(uuid):
                del self._stored[provider]["allocations"][uuid]
            for provider, part in content["allocations"].items():
                self._known(provider)["allocations"][uuid] = dict(part["resources"])
        try:
            for each in self._stored.values():
                _check_capacity(each)
        except PlacementConflict:
            self._stored = before
            raise
        for uuid, content in contents.items():
            self._remember(uuid, content)
            for provider in content["allocations"]:
                self._stored[provider]["generation"] += 1

    def _remember(self, uuid: str, content: Mapping[str, Any]) -> None:
        """Record a consumer; Placement forgets one without allocations."""
        if not content["allocations"]:
            self._consumers.pop(uuid, None)
            return
        generation = (content.get("consumer_generation") or 0) + 1
        names = ("project_id", "user_id", "consumer_type")
        self._consumers[uuid] = {
            "consumer_generation": generation,
            **{name: content[name] for name in names},
        }

    def _known(self, uuid: str) -> dict[str, Any]:
        if uuid not in self._stored:
            raise PlacementConflict(f"provider {uuid} is gone")
        return self._stored[uuid]

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


def _check_capacity(provider: Mapping[str, Any]) -> None:
    used = Counter[str]()
    for resources in provider["allocations"].values():
        used.update(resources)
    for name, number in used.items():
        record = provider["inventories"].get(name, {"total": 0, "reserved": 0})
        ratio = record.get("allocation_ratio", 1.0)
        if number > (record["total"] - record["reserved"]) * ratio:
            raise PlacementConflict(f"provider {provider['name']} has too little {name}")


def _refusal(code: str, detail: str) -> PlacementError:
    return PlacementError(detail, code=code)
