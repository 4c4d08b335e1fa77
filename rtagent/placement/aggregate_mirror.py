"""AggregateMirror: mirrors host aggregates in Placement, as aggregates of the hosts' providers."""

from collections.abc import Mapping, Set

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.placement.client import HttpPlacement

#: How often one provider is read and written again because others write it, too.
ATTEMPTS = 4


class AggregateMirror:
    """Puts the providers of hosts into the aggregates of these hosts. For one thread.

    Other aggregates of a provider stay: those of Nova's hosts, or of sharing providers.
    """

    def __init__(self, api: HttpPlacement) -> None:
        self._api = api
        #: The aggregates of a provider that were ours when it was last read or written.
        self._shown: dict[str, frozenset[str]] = {}

    def sync(self, wanted: Mapping[str, frozenset[str]], ours: Set[str]) -> Mapping[str, str]:
        """Write what differs. A provider is read only if it is new or its aggregates changed.

        :param wanted: the uuids of the host's aggregates, by provider.
        :param ours: the uuids of all aggregates, deleted ones included.
        :returns: why providers could not be written, by uuid: they are tried again next time.
        :raises PlacementUnavailable: it does not answer.
        """
        self._shown = {uuid: each for uuid, each in self._shown.items() if uuid in wanted}
        if not ours:
            return {}
        failed = {}
        for uuid, aggregates in wanted.items():
            if self._shown.get(uuid) == aggregates:
                continue
            try:
                self._write(uuid, aggregates, ours)
            except PlacementUnavailable:
                raise
            except PlacementError as error:
                failed[uuid] = error.message
            else:
                self._shown[uuid] = aggregates
        return failed

    def verify(self) -> None:
        """Read every provider again at the next `sync`: others may have changed it."""
        self._shown.clear()

    def _write(self, uuid: str, wanted: frozenset[str], ours: Set[str]) -> None:
        """:raises PlacementConflict: there is no such provider, or others write it all the time."""
        for attempt in range(ATTEMPTS):
            found = self._api.provider_aggregates(uuid)
            before = frozenset(found["aggregates"])
            after = (before - ours) | wanted
            if after == before:
                return
            try:
                generation = found["resource_provider_generation"]
                self._api.put_aggregates(uuid, generation, sorted(after))
                return
            except PlacementConflict:
                if attempt == ATTEMPTS - 1:
                    raise
