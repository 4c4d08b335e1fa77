"""Lists of the instances on a host, kept from messages that may be lost, doubled or reordered.

An agent numbers its messages about instances without gaps, from the beginning of its epoch. Of two
messages about one instance, the one with the higher number counts, in whatever order they come. A
number that is missing, or a digest that differs, shows that the whole list is needed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.host_report import MAX_INSTANCES, HostReport, InstanceInfo
from rtagent.scheduler.report import instances_digest
from rtagent.scheduler.report_documents import DeleteInstanceInfo, InstanceMessage, SyncInstanceInfo

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(InstanceInfo).decode

#: The most numbers that are remembered beyond a missing one, and instances that they removed.
MAX_BEYOND = 1000
#: The most bytes of the encoded instances of one host.
MAX_BYTES = 2**23


class Entry(Value, frozen=True):
    """An instance in a list. It is decoded when it is read, because the claims of all hosts
    as objects would take several times the memory.

    :ivar number: of the message that it comes from. :ivar encoded: an `InstanceInfo`.
    :ivar differs: its domain differs from its claims, or has none.
    """

    number: int
    here: bool
    encoded: bytes
    differs: bool = False


class HostInstances(Mapping[str, InstanceInfo]):
    """The instances on a host, by uuid. Immutable.

    :param assumed: owners of assumed claims, with these alone.
    :param counted: the uuids of the claims that the host's report counts.
    """

    def __init__(
        self,
        entries: Mapping[str, Entry],
        assumed: Mapping[str, InstanceInfo] = {},
        counted: frozenset[str] = frozenset(),
    ) -> None:
        self._entries, self._assumed, self._counted = entries, assumed, counted
        self._uuids = entries.keys() | assumed.keys() if assumed else entries.keys()

    @property
    def here(self) -> frozenset[str]:
        """The uuids of the instances that are on the host."""
        listed = (uuid for uuid, entry in self._entries.items() if entry.here)
        return frozenset((*listed, *(uuid for uuid, info in self._assumed.items() if info.here)))

    @property
    def differing(self) -> int:
        """The number of those whose domains differ from their claims, or have none."""
        return sum(entry.differs for entry in self._entries.values())

    def counted(self, uuid: str) -> InstanceInfo | None:
        """Return an instance with what the host's report counts for it; None: nothing.

        The list may be newer or older than the report.
        """
        info = self._reported(uuid)
        if info is None:
            return None
        claims = tuple(claim for claim in info.claims if claim.uuid in self._counted)
        if not claims and info.domain_usage is None:
            return None
        return replace(info, claims=claims)

    def _reported(self, uuid: str) -> InstanceInfo | None:
        entry = self._entries.get(uuid)
        return None if entry is None else _decode(entry.encoded)

    def __getitem__(self, uuid: str) -> InstanceInfo:
        known, assumed = self._reported(uuid), self._assumed.get(uuid)
        if assumed is None:
            if known is None:
                raise KeyError(uuid)
            return known
        if known is None:
            return assumed
        return replace(
            known, here=known.here or assumed.here, claims=_union(known.claims, assumed.claims)
        )

    def __contains__(self, uuid: object) -> bool:
        return uuid in self._uuids

    def __iter__(self) -> Iterator[str]:
        return iter(self._uuids)

    def __len__(self) -> int:
        return len(self._uuids)


class InstanceList:
    """The list of one host. Not thread-safe.

    Its parts are replaced with each change, so that `copy.copy` makes an independent list.

    :ivar entries: by uuid.
    """

    def __init__(self) -> None:
        self.entries: Mapping[str, Entry] = {}
        self._epoch = 0
        self._has_whole = False
        #: Every message up to this number is included.
        self._upto = 0
        self._beyond: frozenset[int] = frozenset()
        #: Numbers of the messages that removed an instance, beyond a missing one.
        self._removed: Mapping[str, int] = {}

    @property
    def confirmed(self) -> bool:
        """Whether no message is missing."""
        return self._has_whole and not self._beyond

    def use(self, message: InstanceMessage, instances: Sequence[InstanceInfo] | None) -> bool:
        """Use a message. Return whether it was new.

        :param instances: those of the message; None: it has none.
        """
        epoch, number = message.epoch, message.revision
        if isinstance(message, DeleteInstanceInfo):
            return self.delete(epoch, number, message.instance_uuid)
        if isinstance(message, SyncInstanceInfo):
            return self.sync(epoch, number, message.digest, instances)
        return self.update(epoch, number, instances or ())

    def update(self, epoch: int, number: int, instances: Iterable[InstanceInfo]) -> bool:
        """Insert or replace instances. Return whether the message was new."""
        if not self._begin(epoch, number):
            return False
        after = dict(self.entries)
        for info in instances:
            if self._is_newer(info.uuid, number):
                after[info.uuid] = _entry(number, info)
        self._end(after, number)
        return True

    def delete(self, epoch: int, number: int, uuid: str) -> bool:
        """Remove an instance. Return whether the message was new."""
        if not self._begin(epoch, number):
            return False
        after = dict(self.entries)
        if self._is_newer(uuid, number):
            after.pop(uuid, None)
            self._removed = {**self._removed, uuid: number}
        self._end(after, number)
        return True

    def sync(
        self, epoch: int, number: int, digest: str, instances: Sequence[InstanceInfo] | None
    ) -> bool:
        """Compare the list with the agent's, or replace it. Return whether the message was new.

        :param digest: of the agent's list. :param instances: all of them; None: the agent sends the
            digest alone.
        """
        if not self._begin(epoch, number):
            return False
        if instances is None:
            self._end(self.entries, number)
            if self._upto == number and digest != self.digest:
                self._has_whole = False
            return True
        kept = {uuid: each for uuid, each in self.entries.items() if each.number > number}
        for info in instances:
            if info.uuid not in kept and self._removed.get(info.uuid, 0) < number:
                kept[info.uuid] = _entry(number, info)
        self._has_whole, self._upto = True, max(self._upto, number)
        self._end(kept, number)
        return True

    def start(self, epoch: int, instances: Iterable[InstanceInfo]) -> None:
        """Begin with the instances of a database, until the agent sends its list."""
        if epoch >= self._epoch and not self._has_whole:
            self._reset(epoch)
            self.entries = {info.uuid: _entry(0, info) for info in instances}

    def includes(self, epoch: int, number: int) -> bool:
        """Whether the list is complete up to a message."""
        return self._has_whole and (self._epoch, self._upto) >= (epoch, number)

    def lacks(self, report: HostReport) -> bool:
        """Whether the whole list is needed, as a report of the same host shows."""
        same = (report.epoch, report.instances_revision) == (self._epoch, self._upto)
        return not (same and self.confirmed and report.instances_digest == self.digest)

    def is_ahead(self, report: HostReport) -> bool:
        """Whether the list has messages that a report of the same host does not know of."""
        last = max((self._upto, *self._beyond))
        return (self._epoch, last) > (report.epoch, report.instances_revision)

    def restart(self) -> None:
        """Accept messages of any epoch. The instances stay until the agent sends its list."""
        self._reset(0)

    @property
    def digest(self) -> str:
        """The digest of the uuids, as agents compute it."""
        return instances_digest(self.entries)

    def _begin(self, epoch: int, number: int) -> bool:
        if epoch > self._epoch:
            self._reset(epoch)
        return epoch == self._epoch and number > self._upto and number not in self._beyond

    def _reset(self, epoch: int) -> None:
        """Begin an epoch. The instances of the one before stay until the agent sends its list."""
        self.entries = {uuid: replace(each, number=0) for uuid, each in self.entries.items()}
        self._epoch, self._has_whole, self._upto = epoch, False, 0
        self._beyond, self._removed = frozenset(), {}

    def _is_newer(self, uuid: str, number: int) -> bool:
        known = self.entries.get(uuid)
        last = self._removed.get(uuid, 0) if known is None else known.number
        return number > last

    def _end(self, entries: Mapping[str, Entry], number: int) -> None:
        """:raises ValueError: the list would be too large."""
        size = sum(len(entry.encoded) for entry in entries.values())
        if len(entries) > MAX_INSTANCES or size > MAX_BYTES:
            raise ValueError(
                f"the host would have {len(entries)} instances of {size} bytes, and at most"
                f" {MAX_INSTANCES} instances and {MAX_BYTES} bytes are kept of one host"
            )
        self.entries = entries
        beyond = {*self._beyond, number}
        while self._upto + 1 in beyond:
            self._upto += 1
        beyond = {each for each in beyond if each > self._upto}
        removed = self._removed
        # The whole list is needed. A repeated message does no harm, see `_is_newer`; an instance
        # that comes back by an older message goes with that list.
        if len(beyond) > MAX_BEYOND:
            beyond, removed = {max(beyond)}, {}
        self._beyond = frozenset(beyond)
        self._removed = {
            uuid: at for uuid, at in removed.items() if at > self._upto and uuid not in entries
        }


def _entry(number: int, info: InstanceInfo) -> Entry:
    return Entry(number, info.here, _encode(info), info.domain_usage is not None)


def _union(known: Sequence[Claim], assumed: Sequence[Claim]) -> tuple[Claim, ...]:
    uuids = {claim.uuid for claim in known}
    return (*known, *(claim for claim in assumed if claim.uuid not in uuids))
