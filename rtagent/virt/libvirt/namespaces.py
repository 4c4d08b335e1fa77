"""Observe the host's persistent memory namespaces."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rtagent.model.assigned_resources import PmemNamespace
from rtagent.model.observation import Problem
from rtagent.ports import PersistentMemory, PmemUnavailable
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.hostfile import simulated_namespaces
from rtagent.virt.ndctl import parse_namespaces

#: Seconds for which a list is used again: namespaces change rarely, and an event of a domain causes
#: an observation at once.
AGE = 60.0


class Namespaces:
    """Caches the list. Call `look` on one thread at a time.

    :ivar listed: as last listed; None: they could never be listed.
    """

    def __init__(self, source: PersistentMemory | None) -> None:
        """:param source: None: the host has no persistent memory."""
        self._source = source
        self._session: Session | None = None
        self._read_at = 0.0
        self.listed: tuple[PmemNamespace, ...] | None = None

    def look(self, session: Session, file: Path | None) -> list[Problem]:
        """List the namespaces, if the list is old or of another session.

        :param file: the host file of a simulated host, which describes its namespaces.
        """
        now = time.monotonic()
        if session is self._session and now < self._read_at + AGE:
            return []
        try:
            self.listed = tuple(self._list(file))
        except (PmemUnavailable, BadDocument) as error:
            return [Problem(item="persistent memory", message=str(error))]
        self._session, self._read_at = session, now
        return []

    @property
    def names(self) -> Mapping[str, str]:
        """The name of each namespace, by the path of its device."""
        return {each.path: each.name for each in self.listed or ()}

    def _list(self, file: Path | None) -> Sequence[PmemNamespace]:
        if file is not None:
            return parse_namespaces(simulated_namespaces(file))
        return () if self._source is None else self._source.namespaces()
