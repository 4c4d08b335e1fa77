"""Observe the host's persistent memory namespaces."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rtagent.model.assignment import PmemNamespace
from rtagent.model.observation import Problem
from rtagent.ports import PersistentMemory, PmemUnavailable
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.hostfile import simulated_namespaces
from rtagent.virt.ndctl import parse_namespaces

#: Seconds for which a list, or a failure to get one, is used again: namespaces change rarely, an
#: event of a domain causes an observation at once, and a hanging command delays each one.
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
        self._problems: tuple[Problem, ...] = ()
        self.listed: tuple[PmemNamespace, ...] | None = None

    def look(self, session: Session, file: Path | None) -> tuple[Problem, ...]:
        """List the namespaces, if the list is old or of another session.

        :param file: the host file of a simulated host, which describes its namespaces.
        """
        if session is self._session and time.monotonic() < self._read_at + AGE:
            return self._problems
        try:
            self.listed, self._problems = tuple(self._list(file)), ()
        except (PmemUnavailable, BadDocument) as error:
            self._problems = (Problem(item="persistent memory", message=str(error)),)
        self._session, self._read_at = session, time.monotonic()
        return self._problems

    @property
    def names(self) -> Mapping[str, str] | None:
        """The name of each namespace, by the path of its device; None: as `listed`."""
        return None if self.listed is None else {each.path: each.name for each in self.listed}

    def _list(self, file: Path | None) -> Sequence[PmemNamespace]:
        if file is not None:
            return parse_namespaces(simulated_namespaces(file))
        return () if self._source is None else self._source.namespaces()
