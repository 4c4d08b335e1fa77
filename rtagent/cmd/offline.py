"""OfflineReader: the read API's documents, made from what the database holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from prometheus_client import CollectorRegistry

from rtagent.api.client import as_error
from rtagent.api.routes import answer
from rtagent.api.sources import Sources
from rtagent.errors import ClaimNotFound, NodeNotFound, PciDeviceNotFound, RtAgentError
from rtagent.model.host import HostState


class OfflineReader:
    """The nodes of a database, each as its own agent would show it.

    :param states: as they were loaded.
    """

    def __init__(self, states: Sequence[HostState]) -> None:
        self._states = states

    def get(self, *segments: str, **filters: str | None) -> dict[str, Any]:
        """The document at a path: a collection of all nodes', or the member that one of them has.

        :raises RtAgentError: as an agent would tell it; that there is no node.
        """
        if not self._states:
            raise RtAgentError("the database has no node: has rtagentd ever run here?")
        query = urlencode({key: value for key, value in filters.items() if value is not None})
        target = "/" + "/".join(quote(part, safe="") for part in segments)
        target = f"{target}?{query}" if query else target
        if len(segments) > 1:
            return self._member(target)
        documents = [_ask(state, target) for state in self._states]
        noun = segments[0]
        return {**documents[0], noun: [item for found in documents for item in found[noun]]}

    def _member(self, target: str) -> dict[str, Any]:
        for state in self._states[:-1]:
            try:
                return _ask(state, target)
            except (ClaimNotFound, NodeNotFound, PciDeviceNotFound):
                continue
        return _ask(self._states[-1], target)


def _ask(state: HostState, target: str) -> dict[str, Any]:
    sources = Sources(
        snapshot=lambda: state,
        stale=lambda: False,
        checks=tuple,
        held_back=lambda: None,
        registry=CollectorRegistry(),
    )
    document: dict[str, Any] = json.loads(answer(sources, target).body)
    if "error" in document:
        raise as_error(document)
    return document
