"""ConsumerMoves: writes, deletes and transfers the allocations of a conductor's servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from rtagent.errors import PlacementConflict
from rtagent.model.consumers import INSTANCE, MIGRATION
from rtagent.placement.api import PlacementAPI
from rtagent.placement.client import CONCURRENT_UPDATE
from rtagent.placement.consumer_writer import ATTEMPTS, NO_IDENTITY

_Consumers = Mapping[str, Mapping[str, Any]]


class ConsumerMoves:
    """The allocations of instances and migrations. Thread-safe. Every method may be repeated.

    Every method raises `PlacementUnavailable` if there is no answer, and `PlacementConflict` if
    others write to the consumer all the time, or too little is left.
    """

    def __init__(self, connect: Callable[[], PlacementAPI]) -> None:
        """:param connect: makes a client. Each thread has its own."""
        self._connect, self._local = connect, threading.local()

    def write(
        self,
        consumer_uuid: str,
        request: Mapping[str, Any],
        project_id: str | None,
        user_id: str | None,
    ) -> None:
        """Replace an instance's allocations by a candidate.

        :param request: an allocation request of Placement.
        """

        def written(consumer: Mapping[str, Any]) -> _Consumers:
            known = {"project_id": project_id, "user_id": user_id}
            given = {name: value for name, value in known.items() if value is not None}
            content = _content({**consumer, **given}, request["allocations"], INSTANCE)
            mappings = request.get("mappings")
            return {consumer_uuid: {**content, **({"mappings": mappings} if mappings else {})}}

        self._change(lambda api: written(api.consumer(consumer_uuid)))

    def transfer(self, consumer_uuid: str, receiver_uuid: str, *, migration: bool) -> None:
        """Give the allocations of one consumer to another, in one request.

        :param migration: the receiver is a migration.
        """
        type_ = MIGRATION if migration else INSTANCE

        def transferred(api: PlacementAPI) -> _Consumers:
            sender, receiver = api.consumer(consumer_uuid), api.consumer(receiver_uuid)
            if not sender["allocations"]:
                return {}
            identity = {name: sender[name] for name in ("project_id", "user_id") if name in sender}
            return {
                consumer_uuid: _content(sender, {}, sender.get("consumer_type", INSTANCE)),
                receiver_uuid: _content({**receiver, **identity}, sender["allocations"], type_),
            }

        self._change(transferred)

    def delete(self, consumer_uuid: str) -> None:
        """Delete all allocations of a consumer."""

        def deleted(api: PlacementAPI) -> _Consumers:
            found = api.consumer(consumer_uuid)
            if not found["allocations"]:
                return {}
            return {consumer_uuid: _content(found, {}, found.get("consumer_type", INSTANCE))}

        self._change(deleted)

    def of(self, consumer_uuid: str) -> Mapping[str, Any]:
        """Return a consumer's allocations by provider, as a candidate has them."""
        return _resources(self._api.consumer(consumer_uuid)["allocations"])

    def _change(self, contents: Callable[[PlacementAPI], _Consumers]) -> None:
        """Read and write, and do both again after a concurrent update."""
        for attempt in range(ATTEMPTS):
            new = contents(self._api)
            try:
                if new:
                    self._api.post_consumers(new)
                return
            except PlacementConflict as error:
                concurrent = error.kwargs.get("code") == CONCURRENT_UPDATE
                if not concurrent or attempt == ATTEMPTS - 1:
                    raise

    @property
    def _api(self) -> PlacementAPI:
        api: PlacementAPI | None = getattr(self._local, "api", None)
        if api is None:
            api = self._local.api = self._connect()
        return api


def _content(
    consumer: Mapping[str, Any], allocations: Mapping[str, Any], type_: str
) -> dict[str, Any]:
    """Return what is written for a consumer, by its generation."""
    return {
        "allocations": _resources(allocations),
        "project_id": consumer.get("project_id", NO_IDENTITY),
        "user_id": consumer.get("user_id", NO_IDENTITY),
        "consumer_type": type_,
        "consumer_generation": consumer.get("consumer_generation"),
    }


def _resources(allocations: Mapping[str, Any]) -> dict[str, Any]:
    return {uuid: {"resources": dict(part["resources"])} for uuid, part in allocations.items()}
