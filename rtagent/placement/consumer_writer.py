"""ConsumerWriter: writes the allocations of consumers, with the fewest requests.

A consumer may have allocations on other hosts, which other agents write, and on providers that no
agent knows. Those are kept: only the parts on this node's providers are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from msgspec.structs import replace
from retrying import Retrying

from rtagent.errors import PlacementConflict, PlacementError
from rtagent.model.base import Value
from rtagent.model.consumers import INSTANCE, Parts
from rtagent.placement.api import PlacementAPI
from rtagent.placement.client import CONCURRENT_UPDATE

#: How often a consumer is tried in one write while other clients write to it.
ATTEMPTS = 4
#: The generation of a consumer whose first write was interrupted in Placement. It has no
#: allocations, and Placement does not show it.
INTERRUPTED = 0
#: Placement's word for the type of a consumer that was written without one. It cannot be written.
UNTYPED = "unknown"
#: Placement's own project and user of consumers of which these are not known.
NO_IDENTITY = "00000000-0000-0000-0000-000000000000"


class WantedConsumer(Value, frozen=True, kw_only=True):
    """A consumer as this node wants it.

    :ivar parts: on this node's providers. :ivar consumer_type: None: as Placement has it.
    :ivar is_new: Placement probably has nothing of it, so that it need not be read first.
    """

    uuid: str
    parts: Parts = {}
    consumer_type: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    is_new: bool = False


#: Consumers that are written together or not at all, so that what moves from one to another is
#: neither counted twice nor free for a moment.
Group = Sequence[WantedConsumer]


class _Known(Value, frozen=True, kw_only=True):
    """A consumer as Placement has it. :ivar generation: None: Placement does not have it."""

    generation: int | None = None
    parts: Parts = {}
    consumer_type: str = INSTANCE
    project_id: str = NO_IDENTITY
    user_id: str = NO_IDENTITY


class OwnProviders(Protocol):
    """The uuids of this node's providers.

    :ivar shared_disk: the uuid of a provider that shares its disk with this and other nodes.
    """

    @property
    def shared_disk(self) -> str | None: ...

    def __contains__(self, uuid: object) -> bool: ...


class ConsumerWriter:
    """For one thread at a time. It remembers what Placement acknowledged."""

    def __init__(self, api: PlacementAPI) -> None:
        self._api = api
        self._known: dict[str, _Known] = {}
        self._providers: set[str] = set()

    def learn(self, providers: Iterable[str]) -> None:
        """Note providers of this node. A consumer may have a part on one that the node has no more
        when the part is to be removed: its device is gone, or is not reported any more.
        """
        self._providers.update(providers)

    def forget(self, consumers: Iterable[str] | None = None) -> None:
        """Forget what Placement has: consumers are read before they are written.

        :param consumers: which; None: all.
        """
        for uuid in list(self._known) if consumers is None else consumers:
            self._known.pop(uuid, None)

    def write(self, groups: Sequence[Group], own: OwnProviders) -> Mapping[str, PlacementError]:
        """Write groups of consumers: in one request if there is no conflict, else one by one.

        :returns: why Placement refused consumers, by uuid.
        :raises PlacementError: the answer is not about a consumer, or there is none. It is unknown
            what was written; a repeat writes the rest.
        """
        if len(groups) > 1:
            try:
                self._write_once([each for group in groups for each in group], None, own)
            except PlacementError as error:
                if not _is_refusal(error):
                    raise
            else:
                return {}
        failed: dict[str, PlacementError] = {}
        for group in groups:
            try:
                self._write_group(group, own)
            except PlacementError as error:
                if not _is_refusal(error):
                    raise
                failed |= {each.uuid: error for each in group}
        return failed

    def _write_group(self, group: Group, own: OwnProviders) -> None:
        """Retry while other clients write to the consumers, each time from what these have now."""
        retrying = Retrying(
            stop_max_attempt_number=ATTEMPTS,
            wait="no_sleep",  # the other writer finishes while the consumer is read again
            retry_on_exception=_is_concurrent,
        )
        # After a conflict, `is_new` may be wrong.
        known = [replace(each, is_new=False) for each in group]
        tries: Iterator[tuple[Group, int | None]] = iter(
            ((group, None), (known, None), (known, INTERRUPTED), (known, None))
        )
        retrying.call(lambda: self._write_once(*next(tries), own))

    def _write_once(
        self, consumers: Iterable[WantedConsumer], empty: int | None, own: OwnProviders
    ) -> None:
        """:param empty: the generation of consumers without allocations."""
        pairs = [(self._read(each, empty), each) for each in consumers]
        for _, each in pairs:
            self.learn(each.parts.keys() - {own.shared_disk})
        after = {each.uuid: (known, self._merged(known, each, own)) for known, each in pairs}
        changed = {uuid: pair for uuid, pair in after.items() if pair[0] != pair[1]}
        # Until the answer is there, nothing is known for certain.
        for uuid in changed:
            self._known.pop(uuid, None)
        self._send({uuid: _body(known, new) for uuid, (known, new) in changed.items()})
        here = {each.uuid for _, each in pairs if each.parts}
        for uuid, (known, new) in after.items():
            if uuid not in here:
                self._known.pop(uuid, None)  # it is gone, or other hosts go on writing it
            elif uuid in changed:
                self._known[uuid] = replace(new, generation=(known.generation or 0) + 1)
            else:
                self._known[uuid] = known

    def _send(self, bodies: Mapping[str, Mapping[str, Any]]) -> None:
        if len(bodies) == 1:
            for uuid, body in bodies.items():
                self._api.put_consumer(uuid, body)
        elif bodies:
            self._api.post_consumers(bodies)

    def _read(self, wanted: WantedConsumer, empty: int | None) -> _Known:
        known = self._known.get(wanted.uuid)
        if known is not None:
            return known
        if wanted.is_new:
            return _Known()
        found = self._api.consumer(wanted.uuid)
        if not found["allocations"]:
            return _Known(generation=empty)
        parts = {uuid: part["resources"] for uuid, part in found["allocations"].items()}
        return _Known(
            generation=found["consumer_generation"],
            parts=parts,
            consumer_type=found.get("consumer_type", INSTANCE),
            project_id=found["project_id"],
            user_id=found["user_id"],
        )

    def _merged(self, known: _Known, wanted: WantedConsumer, own: OwnProviders) -> _Known:
        """Return the consumer with this node's parts replaced.

        The part on a provider that shares its disk belongs to the host where the consumer has other
        parts, too. If there is no such host any more, it goes with this node's parts.
        """
        others = {
            uuid: part
            for uuid, part in known.parts.items()
            if uuid not in own and uuid not in self._providers
        }
        if not wanted.parts:
            return replace(known, parts={} if others.keys() == {own.shared_disk} else others)
        return replace(
            known,
            parts={**others, **wanted.parts},
            consumer_type=wanted.consumer_type or known.consumer_type,
            project_id=wanted.project_id or known.project_id,
            user_id=wanted.user_id or known.user_id,
        )


def _is_refusal(error: PlacementError) -> bool:
    """Whether Placement refused a consumer. Any other error would meet all consumers alike."""
    status = error.kwargs.get("status")
    return isinstance(error, PlacementConflict) or status == HTTPStatus.BAD_REQUEST


def _is_concurrent(error: Exception) -> bool:
    return isinstance(error, PlacementConflict) and error.kwargs.get("code") == CONCURRENT_UPDATE


def _body(known: _Known, new: _Known) -> Mapping[str, Any]:
    return {
        "allocations": {uuid: {"resources": dict(part)} for uuid, part in new.parts.items()},
        "consumer_generation": known.generation,
        "consumer_type": INSTANCE if new.consumer_type == UNTYPED else new.consumer_type,
        "project_id": new.project_id,
        "user_id": new.user_id,
    }
