"""Consumers in Placement: their records, changes of what they have on this node's providers, and
ConsumerWriter, which writes the allocations of claims with the fewest requests.

A consumer may have allocations on other hosts, which other agents write, and on providers that no
agent knows. Those are kept: only the parts on this node's providers are replaced.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from http import HTTPStatus
from typing import Any, Protocol

from msgspec.structs import replace
from retrying import Retrying

from rtagent.errors import PlacementConflict, PlacementError
from rtagent.model.base import Value
from rtagent.model.consumers import INSTANCE, Consumer, Parts
from rtagent.placement.allocation_audit import AllocatedConsumer
from rtagent.placement.client import CONCURRENT_UPDATE, HttpPlacement

#: How often a consumer is tried in one write while other clients write to it.
ATTEMPTS = 4
#: The generation of a consumer whose first write was interrupted in Placement. It has no
#: allocations, and Placement does not show it.
INTERRUPTED = 0
#: Placement's word for the type of a consumer that was written without one. It cannot be written.
UNTYPED = "unknown"
#: Placement's own project and user of consumers of which these are not known.
NO_IDENTITY = "00000000-0000-0000-0000-000000000000"

#: Given what Placement has, return the parts that the consumer should have on the same providers,
#: or None to leave everything as it is.
Rule = Callable[[AllocatedConsumer], Parts | None]


def _is_refusal(error: PlacementError) -> bool:
    """Whether Placement refused a consumer. Any other error would meet all consumers alike."""
    status = error.kwargs.get("status")
    return isinstance(error, PlacementConflict) or status == HTTPStatus.BAD_REQUEST


def _is_concurrent(error: Exception) -> bool:
    return isinstance(error, PlacementConflict) and error.kwargs.get("code") == CONCURRENT_UPDATE


#: While other clients write to a consumer. They finish while it is read again.
_RETRYING = Retrying(
    stop_max_attempt_number=ATTEMPTS, wait="no_sleep", retry_on_exception=_is_concurrent
)


class WantedConsumer(Consumer, frozen=True, kw_only=True):
    """A consumer as this node wants it. Without parts, only its uuid matters.

    :ivar is_new: Placement probably has nothing of it, so that it need not be read first.
    """

    consumer_type: str = INSTANCE
    project_id: str | None = None
    user_id: str | None = None
    parts: Parts = {}
    is_new: bool = False


#: Consumers that are written together or not at all, so that what moves from one to another is
#: neither counted twice nor free for a moment.
Group = Sequence[WantedConsumer]


class ConsumerRecord(Value, frozen=True, kw_only=True):
    """A consumer as Placement has it.

    :ivar generation: None: Placement does not have it. :ivar allocations: by provider; some may be
        on providers of other hosts.
    """

    generation: int | None = None
    allocations: Parts = {}
    consumer_type: str = INSTANCE
    project_id: str = NO_IDENTITY
    user_id: str = NO_IDENTITY

    def body(self, generation: int | None) -> Mapping[str, Any]:
        """Return the body of a write. :param generation: that the consumer has before."""
        return {
            "allocations": {
                uuid: {"resources": dict(part)} for uuid, part in self.allocations.items()
            },
            "consumer_generation": generation,
            "consumer_type": INSTANCE if self.consumer_type == UNTYPED else self.consumer_type,
            "project_id": self.project_id,
            "user_id": self.user_id,
        }

    def on(self, uuid: str, providers: Set[str]) -> tuple[AllocatedConsumer, Parts]:
        """Return what the consumer has on some providers, and its parts on all others."""
        here = {name: part for name, part in self.allocations.items() if name in providers}
        others = {name: part for name, part in self.allocations.items() if name not in providers}
        return AllocatedConsumer(uuid=uuid, generation=self.generation, parts=here), others


#: Of a consumer of which nothing is known.
UNKNOWN = ConsumerRecord()


def new_record(consumer: Consumer) -> ConsumerRecord:
    """Return the record that a claim gives its consumer, without allocations."""
    return ConsumerRecord(
        consumer_type=consumer.consumer_type,
        project_id=consumer.project_id or NO_IDENTITY,
        user_id=consumer.user_id or NO_IDENTITY,
    )


def read_record(api: HttpPlacement, uuid: str, new: ConsumerRecord = UNKNOWN) -> ConsumerRecord:
    """Return a consumer. :param new: the record of one that Placement does not have."""
    found = api.consumer(uuid)
    if not found["allocations"]:
        return new
    return ConsumerRecord(
        generation=found["consumer_generation"],
        allocations={name: part["resources"] for name, part in found["allocations"].items()},
        consumer_type=found.get("consumer_type", INSTANCE),
        project_id=found["project_id"],
        user_id=found["user_id"],
    )


def change_parts(
    api: HttpPlacement,
    uuid: str,
    providers: Set[str],
    rule: Rule,
    new: ConsumerRecord = UNKNOWN,
    *,
    shared: str | None = None,
) -> ConsumerRecord | None:
    """Replace the parts of a consumer on some providers by what the rule returns.

    The rule is evaluated right before the write. A write by another client in between makes
    Placement refuse this one, and the rule is evaluated again.

    :param new: the record of a consumer that Placement does not have yet.
    :param shared: a provider that shares its inventory with this node and with others. The
        consumer's part there counts as this node's if the consumer has nothing on other nodes.
    :returns: the consumer before, with its parts on the providers concerned; None: nothing was
        written.
    :raises PlacementConflict: other clients always come first, or a provider has too little left.
    """

    def change() -> ConsumerRecord | None:
        record, concerned = read_record(api, uuid, new), providers
        found = record.allocations.keys()
        if shared is not None and found & providers and found <= {*providers, shared}:
            concerned = {*providers, shared}
        consumer, others = record.on(uuid, concerned)
        wanted = rule(consumer)
        if wanted is None or wanted == consumer.parts:
            return None
        after = replace(record, allocations={**others, **wanted})
        api.put_consumer(uuid, after.body(record.generation))
        return replace(record, allocations=consumer.parts)

    changed: ConsumerRecord | None = _RETRYING.call(change)
    return changed


def tree_providers(api: HttpPlacement, root: str) -> frozenset[str]:
    """Return the uuids of all providers of a node; none if Placement does not have the node."""
    return frozenset(provider["uuid"] for provider in api.tree(root))


def read_consumers(
    api: HttpPlacement, providers: Iterable[str], give_way: Callable[[], None] = lambda: None
) -> dict[str, AllocatedConsumer]:
    """Return the consumers of several providers, by uuid, with one request for each provider.

    :param give_way: called before each request, for what is more urgent.
    """
    parts: dict[str, dict[str, Mapping[str, int]]] = {}
    generations: dict[str, int | None] = {}
    for provider in sorted(providers):
        give_way()
        try:
            consumers = api.allocations(provider)["allocations"]
        except PlacementConflict:
            continue  # it was deleted meanwhile, so that nothing is allocated from it
        for uuid, allocation in consumers.items():
            parts.setdefault(uuid, {})[provider] = allocation["resources"]
            generations[uuid] = allocation.get("consumer_generation")
    return {
        uuid: AllocatedConsumer(uuid=uuid, generation=generations[uuid], parts=found)
        for uuid, found in parts.items()
    }


class OwnProviders(Protocol):
    """The uuids of this node's providers.

    :ivar shared_disk: the uuid of a provider that shares its disk with this and other nodes.
    """

    @property
    def shared_disk(self) -> str | None: ...

    def __contains__(self, uuid: object) -> bool: ...


class ConsumerWriter:
    """For one thread at a time. It remembers what Placement acknowledged."""

    def __init__(self, api: HttpPlacement) -> None:
        self._api = api
        self._known: dict[str, ConsumerRecord] = {}
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
        # After a conflict, `is_new` may be wrong.
        known = [replace(each, is_new=False) for each in group]
        tries: Iterator[tuple[Group, int | None]] = iter(
            ((group, None), (known, None), (known, INTERRUPTED), (known, None))
        )
        _RETRYING.call(lambda: self._write_once(*next(tries), own))

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
        self._send({uuid: new.body(known.generation) for uuid, (known, new) in changed.items()})
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

    def _read(self, wanted: WantedConsumer, empty: int | None) -> ConsumerRecord:
        known = self._known.get(wanted.uuid)
        if known is not None:
            return known
        if wanted.is_new:
            return ConsumerRecord()
        return read_record(self._api, wanted.uuid, ConsumerRecord(generation=empty))

    def _merged(
        self, known: ConsumerRecord, wanted: WantedConsumer, own: OwnProviders
    ) -> ConsumerRecord:
        """Return the consumer with this node's parts replaced.

        The part on a provider that shares its disk belongs to the host where the consumer has other
        parts, too. If there is no such host any more, it goes with this node's parts.
        """
        others = {
            uuid: part
            for uuid, part in known.allocations.items()
            if uuid not in own and uuid not in self._providers
        }
        if not wanted.parts:
            left = {} if others.keys() == {own.shared_disk} else others
            return replace(known, allocations=left)
        return replace(
            known,
            allocations={**others, **wanted.parts},
            consumer_type=wanted.consumer_type,
            project_id=wanted.project_id or known.project_id,
            user_id=wanted.user_id or known.user_id,
        )
