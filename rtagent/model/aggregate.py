"""A host aggregate: hosts with common metadata, as in Nova."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Document, Name, Text, Uuid


class Aggregate(Document, frozen=True, kw_only=True):
    """A named group of hosts.

    :ivar uuid: also the uuid of the aggregate in Placement.
    :ivar metadata: keys that filters and weighers read. ``availability_zone`` is one of them.
    :ivar hosts: names of service hosts, sorted.
    """

    uuid: Uuid
    name: Name
    metadata: Mapping[Name, Text] = {}
    hosts: tuple[Name, ...] = ()

    @property
    def availability_zone(self) -> str | None:
        """The availability zone of its hosts, or None."""
        return self.metadata.get("availability_zone")
